//! What a workspace may reach, as users write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::HttpRule;

/// The network rules of a workspace. The default reaches nothing. `agentiso_policy::egress` checks and applies them.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkRules {
    /// Whether addresses outside the workspaces can be reached.
    pub allow_internet: bool,
    /// Whether workspaces of the same group can be reached, if they allow it too.
    pub allow_inter_vm: bool,
    /// Groups of the workspace. Default: the group `default`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// TCP ports on which other workspaces can reach this one. Default: every port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_ports: Option<Vec<u16>>,
    /// If given, only these names (and `allow_cidrs`) can be reached: `example.com`, `*.example.com`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_domains: Option<Vec<String>>,
    /// Names that cannot be reached. Stronger than `allow_domains`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_domains: Vec<String>,
    /// If given, only these ranges (and `allow_domains`) can be reached. Also opens ranges that are closed by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_cidrs: Option<Vec<String>>,
    /// Ranges that cannot be reached. Stronger than `allow_cidrs` and `allow_domains`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_cidrs: Vec<String>,
    /// How connections leave the workspace.
    #[serde(skip_serializing_if = "Egress::is_direct")]
    pub egress: Egress,
    /// Whether a refused destination raises a request for approval.
    #[serde(skip_serializing_if = "Ask::is_off")]
    pub ask: Ask,
    /// Rules on requests, in order; the first that matches decides. A host with an `allow` rule refuses what no rule
    /// matches. Needs `egress: proxy`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http_rules: Vec<HttpRule>,
}

impl NetworkRules {
    /// Whether nothing can be reached, so that the workspace needs no network.
    pub fn is_off(&self) -> bool {
        !self.allow_internet && !self.allow_inter_vm
    }
}

/// How connections leave a workspace.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Egress {
    /// To the address that the rules allow.
    #[default]
    Direct,
    /// Through the egress proxy, which also checks the name in each TLS or HTTP connection, and inserts secrets.
    Proxy,
}

impl Egress {
    fn is_direct(&self) -> bool {
        *self == Self::Direct
    }
}

/// What happens when a destination is refused.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// It is refused.
    #[default]
    Off,
    /// It is refused at once, and a request for approval is raised.
    Refuse,
    /// A request for approval is raised, and the connection waits for the answer up to a limit.
    Wait,
}

impl Ask {
    fn is_off(&self) -> bool {
        *self == Self::Off
    }
}
