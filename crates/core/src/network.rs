//! What a workspace may reach, as users write it, and what it reached.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::values::values;
use crate::{HttpRule, WorkspaceId};

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

    /// The rules as one line of text.
    pub fn in_words(&self) -> String {
        let mut words = Vec::new();
        let list = |what: &str, entries: &[String]| match entries {
            [] => format!("{what} none"),
            entries if entries.len() > 8 => {
                format!("{what} {} and {} more", entries[..8].join(", "), entries.len() - 8)
            }
            entries => format!("{what} {}", entries.join(", ")),
        };
        match (self.allow_internet, &self.allow_domains, &self.allow_cidrs) {
            (false, ..) => words.push("internet off".to_owned()),
            (true, None, None) => words.push("internet on, except private and host addresses".to_owned()),
            (true, domains, cidrs) => {
                words.push("internet only as listed".to_owned());
                words.extend(domains.as_deref().map(|entries| list("domains:", entries)));
                words.extend(cidrs.as_deref().map(|entries| list("addresses:", entries)));
            }
        }
        if !self.deny_domains.is_empty() {
            words.push(list("never:", &self.deny_domains));
        }
        if !self.deny_cidrs.is_empty() {
            words.push(list("never:", &self.deny_cidrs));
        }
        if self.allow_inter_vm {
            let groups = if self.groups.is_empty() { "default".to_owned() } else { self.groups.join(", ") };
            let ports = match &self.allowed_ports {
                None => "all ports".to_owned(),
                Some(ports) => {
                    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                    format!("ports {}", ports.join(", "))
                }
            };
            words.push(format!("workspaces of {groups} on {ports}"));
        } else {
            words.push("other workspaces off".to_owned());
        }
        if self.egress == Egress::Proxy {
            words.push("through the egress proxy".to_owned());
            words.extend(self.http_rules.iter().map(ToString::to_string));
        }
        match self.ask {
            Ask::Off => {}
            Ask::Refuse => words.push("refused destinations raise requests".to_owned()),
            Ask::Wait => words.push("refused destinations raise requests and wait for the answer".to_owned()),
        }
        words.join("; ")
    }
}

values! {
    /// How connections leave a workspace.
    #[derive(Default)]
    Egress {
        /// To the address that the rules allow.
        #[default]
        Direct = "direct",
        /// Through the egress proxy, which also checks the name in each TLS or HTTP connection, and inserts secrets.
        Proxy = "proxy",
    }
}

impl Egress {
    fn is_direct(&self) -> bool {
        *self == Self::Direct
    }
}

values! {
    /// What happens when a destination is refused.
    #[derive(Default)]
    Ask {
        /// It is refused.
        #[default]
        Off = "off",
        /// It is refused at once, and a request for approval is raised.
        Refuse = "refuse",
        /// A request for approval is raised, and a query for the name waits for the answer up to a limit.
        Wait = "wait",
    }
}

impl Ask {
    fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

/// The network of a workspace: its rules, and the address it has because of them.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct NetworkState {
    /// What it may reach.
    pub rules: NetworkRules,
    /// Its address. It has one as long as its rules allow anything, also while it is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
}

values! {
    /// The transport of a connection.
    NetworkProtocol {
        /// TCP.
        Tcp = "tcp",
        /// UDP.
        Udp = "udp",
        /// An echo request; its port is 0.
        Icmp = "icmp",
    }
}

values! {
    /// What happened to a connection.
    NetworkEvent {
        /// It was allowed and opened.
        Opened = "opened",
        /// It ended.
        Closed = "closed",
        /// The rules or a limit refused it, or a name.
        Refused = "refused",
        /// It was allowed, but the destination could not be reached.
        Failed = "failed",
        /// It was open and ended because the rules changed or the machine was detached.
        Cut = "cut",
        /// It was refused, and the operator should look at it: the placeholder of a secret was sent where it may not be
        /// used.
        Alert = "alert",
    }
}

impl NetworkEvent {
    /// Whether nothing got through.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::Alert)
    }
}

/// One entry of the connection log.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct NetworkEntry {
    /// The number of the entry. Later entries have higher numbers.
    pub sequence: u64,
    /// When it happened.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Id of the workspace whose connection it was.
    #[schemars(with = "String")]
    pub workspace: WorkspaceId,
    /// What happened.
    pub event: NetworkEvent,
    /// The transport.
    pub protocol: NetworkProtocol,
    /// The name the address was resolved by, or the name that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The destination; absent for a refused name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// The destination port; 0 for pings.
    pub port: u16,
    /// The rule that decided.
    pub rule: String,
    /// Payload from the workspace.
    pub bytes_sent: u64,
    /// Payload to the workspace.
    pub bytes_received: u64,
    /// How long the connection was open.
    pub duration_ms: u64,
}

impl NetworkEntry {
    /// Name and address of the destination.
    pub fn destination(&self) -> String {
        match (&self.name, self.address) {
            (Some(name), Some(address)) => format!("{name} ({address})"),
            (Some(name), None) => name.clone(),
            (None, Some(address)) => address.to_string(),
            (None, None) => "-".to_owned(),
        }
    }
}
