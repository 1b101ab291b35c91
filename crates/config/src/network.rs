//! The network of workspaces.

use agentiso_core::{Ask, NetworkRules, NetworkSettings};
use serde::{Deserialize, Serialize};

use super::presets::Presets;

/// The network of workspaces.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// How workspaces are connected.
    pub backend: Backend,
    /// The range their addresses are from.
    pub pool: String,
    /// Whether a new workspace may reach the internet unless its creator says otherwise.
    pub default_allow_internet: bool,
    /// Whether refused destinations raise requests for approval, and sessions cannot allow more by themselves.
    pub ask: bool,
    /// Named sets of rules.
    pub presets: Presets,
    /// The largest packet of a workspace's card.
    pub mtu: u16,
    /// Connections, UDP flows and pings of one workspace at the same time.
    pub max_connections: u32,
    /// Packets per second from one workspace; 0 for no limit.
    pub packets_per_second: u32,
    /// Bytes per second to and from one workspace together; 0 for no limit.
    pub bytes_per_second: u64,
    /// DNS queries per second from one workspace; 0 for no limit.
    pub dns_queries_per_second: u32,
}

/// How workspaces are connected.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// What needs nothing of the host: the router in user space.
    #[default]
    Auto,
    /// A router in user space, which needs no privileges.
    User,
    /// A bridge in a network namespace, which needs root.
    Bridge,
}

/// The smallest and the largest MTU.
const MTU: std::ops::RangeInclusive<u16> = 1280..=65_520;

impl Default for Network {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            pool: "10.99.0.0/16".to_owned(),
            default_allow_internet: false,
            ask: false,
            presets: Presets::default(),
            mtu: 65_520,
            max_connections: 4096,
            packets_per_second: 200_000,
            bytes_per_second: 1_250_000_000,
            dns_queries_per_second: 200,
        }
    }
}

impl Network {
    /// What the engine has to know.
    pub fn engine_settings(&self) -> NetworkSettings {
        let default_rules = match (self.ask, self.default_allow_internet) {
            (false, allow_internet) => NetworkRules { allow_internet, ..NetworkRules::default() },
            (true, open) => NetworkRules {
                allow_internet: true,
                allow_domains: (!open).then(Vec::new),
                ask: Ask::Refuse,
                ..NetworkRules::default()
            },
        };
        NetworkSettings { default_rules, ask: self.ask, presets: self.presets.resolved() }
    }

    /// The first key with a value that makes no sense, and why.
    pub(super) fn nonsense(&self) -> Option<(&'static str, String)> {
        if !MTU.contains(&self.mtu) {
            let (least, most) = (MTU.start(), MTU.end());
            return Some(("mtu", format!("must be between {least} and {most}, not {}", self.mtu)));
        }
        if self.max_connections == 0 {
            return Some(("max_connections", "must be at least 1, not 0".to_owned()));
        }
        None
    }
}
