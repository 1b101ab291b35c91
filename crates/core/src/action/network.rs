//! Port forwards and network rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{MAX_NETWORK_ENTRIES, MAX_WAIT_SECS, MIN_HOST_PORT, WorkspaceReference};
use super::workspace::{Forward, of_one};
use crate::network_change::with_network_changes;
use crate::{NetworkChange, NetworkEntry, NetworkEvent, NetworkProtocol, NetworkRules};

/// Forwards a port of the host into a workspace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PortForward {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Port in the workspace.
    #[schemars(range(min = 1))]
    pub guest_port: u16,
    /// Port on 127.0.0.1 of the host. Default: a free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_HOST_PORT))]
    pub host_port: Option<u16>,
    /// Another workspace that has the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WorkspaceReference>")]
    pub to: Option<String>,
}
action! { PortForward -> PortForwarded {
    name: "port_forward_add",
    title: "Forward a port",
    subjects: [Workspace(workspace_id), Other(to)],
    routes: [Post "/v1/workspaces/{workspace_id}/forwards"],
    tools: [],
    effect: Changes,
    flags: [idempotent],
    description: "Makes a TCP port of a workspace reachable on 127.0.0.1 of the host; the workspace needs no \
                  network. The forward survives restarts and restores until it is removed. Without host_port, an \
                  existing forward of the port is returned; with another host_port, a second forward is added. With to, \
                  connections leave the workspace over its network, towards the port of another workspace.",
}}

/// A port that is forwarded.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PortForwarded {
    /// Id of the workspace.
    pub workspace_id: String,
    /// Port in the workspace.
    pub guest_port: u16,
    /// Port on 127.0.0.1 of the host.
    pub host_port: u16,
    /// Id of the workspace whose port it is, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl Outcome for PortForwarded {
    fn text(&self) -> String {
        let to = self.to.as_ref().map(|to| format!(" of {to}")).unwrap_or_default();
        format!("Forwarding 127.0.0.1:{} -> {}{to}", self.host_port, self.guest_port)
    }
}

/// Removes a port forward.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PortForwardRemove {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Port in the workspace.
    #[schemars(range(min = 1))]
    pub guest_port: u16,
    /// Port of the host. Default: all forwards of guest_port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_HOST_PORT))]
    pub host_port: Option<u16>,
}
action! { PortForwardRemove -> PortForwardRemoved {
    name: "port_forward_remove",
    title: "Remove a port forward",
    subjects: [Workspace(workspace_id)],
    routes: [Delete "/v1/workspaces/{workspace_id}/forwards/{guest_port}"],
    tools: [Full],
    effect: Changes,
    flags: [idempotent],
    description: "Removes the forwards of a port, or one of them, and closes their connections.",
}}

/// The result of removing a port forward.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PortForwardRemoved {
    /// Id of the workspace.
    pub workspace_id: String,
    /// Port in the workspace.
    pub guest_port: u16,
    /// Whether a forward was removed.
    pub removed: bool,
}

impl Outcome for PortForwardRemoved {
    fn text(&self) -> String {
        match self.removed {
            true => format!("Stopped forwarding to port {}", self.guest_port),
            false => format!("Port {} was not forwarded", self.guest_port),
        }
    }
}

of_one! {
    /// Lists port forwards.
    PortForwardList
}
action! { PortForwardList -> PortForwards {
    name: "port_forward_list",
    title: "List port forwards",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/forwards"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Lists the ports of the host that are forwarded to a workspace.",
}}

/// Port forwards.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PortForwards {
    /// The forwards.
    pub forwards: Vec<Forward>,
}

impl Outcome for PortForwards {
    fn text(&self) -> String {
        if self.forwards.is_empty() {
            return "no port forwards".to_owned();
        }
        self.forwards.iter().map(Forward::in_words).collect::<Vec<_>>().join("\n")
    }
}

with_network_changes! {
    /// Changes the network rules of a workspace.
    pub struct NetworkPolicy {
        /// Id or name.
        #[schemars(with = "WorkspaceReference")]
        pub workspace_id: String,
    }
}
action! { NetworkPolicy -> NetworkPolicySet {
    name: "network_policy",
    title: "Change network rules",
    subjects: [Workspace(workspace_id)],
    routes: [Put "/v1/workspaces/{workspace_id}/network"],
    tools: [Full],
    effect: Changes,
    flags: [idempotent],
    description: "Sets what a workspace can reach, at once, also while it runs. Absent fields keep their value; lists \
                  are replaced. Without fields it shows the rules. Connections that are no longer allowed are cut. \
                  Private, link-local and metadata addresses and the host stay closed unless allow_cidrs names them.",
}}

impl NetworkPolicy {
    /// The change of a workspace's rules.
    pub fn of(workspace_id: impl Into<String>, change: NetworkChange) -> Self {
        let NetworkChange {
            preset,
            allow_internet,
            allow_domains,
            deny_domains,
            allow_cidrs,
            deny_cidrs,
            allow_inter_vm,
            groups,
            allowed_ports,
            egress,
            http_rules,
            ask,
        } = change;
        Self {
            workspace_id: workspace_id.into(),
            preset,
            allow_internet,
            allow_domains,
            deny_domains,
            allow_cidrs,
            deny_cidrs,
            allow_inter_vm,
            groups,
            allowed_ports,
            egress,
            http_rules,
            ask,
        }
    }

    /// The change alone.
    pub fn change(self) -> NetworkChange {
        NetworkChange {
            preset: self.preset,
            allow_internet: self.allow_internet,
            allow_domains: self.allow_domains,
            deny_domains: self.deny_domains,
            allow_cidrs: self.allow_cidrs,
            deny_cidrs: self.deny_cidrs,
            allow_inter_vm: self.allow_inter_vm,
            groups: self.groups,
            allowed_ports: self.allowed_ports,
            egress: self.egress,
            http_rules: self.http_rules,
            ask: self.ask,
        }
    }
}

/// The network rules of a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NetworkPolicySet {
    /// Id of the workspace.
    pub workspace_id: String,
    /// The rules that are in force.
    pub network_policy: NetworkRules,
    /// IP address; null without a network.
    pub ip: Option<String>,
    /// The hosts that package managers are configured for, if a preset asked them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub package_hosts: Vec<PackageHost>,
    /// Destinations that are open for a limited time because a request was granted once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_for_now: Vec<String>,
}

/// A host that a package manager is configured for.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct PackageHost {
    /// Name or address.
    pub host: String,
    /// The package manager.
    pub tool: String,
    /// Where it is configured: `host` or `workspace`.
    pub place: String,
}

impl Outcome for NetworkPolicySet {
    fn text(&self) -> String {
        let address = self.ip.as_ref().map(|ip| format!("; address {ip}")).unwrap_or_default();
        let mut text = self.network_policy.in_words() + &address;
        for one in &self.package_hosts {
            text += &format!("\n{}: used by {} of the {}", one.host, one.tool, one.place);
        }
        text
    }
}

/// Shows the network log.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkLog {
    /// Id or name of a workspace. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WorkspaceReference>")]
    pub workspace_id: Option<String>,
    /// Only what was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<bool>,
    /// The oldest entries after this number. Default: the newest entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Number of entries, up to 1000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_NETWORK_ENTRIES))]
    pub limit: Option<u32>,
    /// Waits up to this many seconds for an entry after `after`. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_SECS))]
    pub wait_secs: Option<u64>,
}
action! { NetworkLog -> NetworkLogged {
    name: "network_log",
    title: "Show network connections",
    subjects: [Past(workspace_id)],
    routes: [Get "/v1/network/log", Get "/v1/workspaces/{workspace_id}/network/log"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Lists the connections of a workspace, or of all, in order: name, address, port, rule, bytes, \
                  duration, and whether they were allowed or refused. Old entries are removed. A session sees its own \
                  workspaces only.",
}}

/// A part of the network log.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NetworkLogged {
    /// Number of entries.
    pub count: usize,
    /// The entries, oldest first.
    pub entries: Vec<NetworkLogEntry>,
    /// Continue with this as `after`.
    pub next_after: u64,
}

/// A connection or a refused attempt.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NetworkLogEntry {
    /// Its number; later entries have higher numbers.
    pub sequence: u64,
    /// When it happened.
    pub at: String,
    /// Id of the workspace.
    pub workspace_id: String,
    /// What happened.
    pub event: NetworkEvent,
    /// The transport.
    pub protocol: NetworkProtocol,
    /// The name the address was resolved by, or the name that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The destination; absent for a refused name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The destination port; 0 for pings.
    pub port: u16,
    /// The rule that decided.
    pub rule: String,
    /// Bytes from the workspace.
    pub bytes_sent: u64,
    /// Bytes to the workspace.
    pub bytes_received: u64,
    /// How long the connection was open, in milliseconds.
    pub duration_ms: u64,
}

impl From<NetworkEntry> for NetworkLogEntry {
    fn from(entry: NetworkEntry) -> Self {
        Self {
            sequence: entry.sequence,
            at: entry.at.to_string(),
            workspace_id: entry.workspace.to_string(),
            event: entry.event,
            protocol: entry.protocol,
            name: entry.name,
            address: entry.address.map(|address| address.to_string()),
            port: entry.port,
            rule: entry.rule,
            bytes_sent: entry.bytes_sent,
            bytes_received: entry.bytes_received,
            duration_ms: entry.duration_ms,
        }
    }
}

impl NetworkLogEntry {
    /// Name and address of the destination.
    pub fn destination(&self) -> String {
        match (&self.name, &self.address) {
            (Some(name), Some(address)) => format!("{name} ({address})"),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => "-".to_owned(),
        }
    }

    /// The entry as one line of text.
    fn in_words(&self) -> String {
        let bytes = match (self.bytes_sent, self.bytes_received) {
            (0, 0) => String::new(),
            (sent, received) => format!("; sent {sent}, received {received} bytes"),
        };
        format!(
            "{} {} {}: {} {}, port {}; {}{bytes}",
            self.sequence,
            self.at,
            self.event,
            self.protocol,
            self.destination(),
            self.port,
            self.rule
        )
    }
}

impl Outcome for NetworkLogged {
    fn text(&self) -> String {
        if self.entries.is_empty() {
            return "no connections".to_owned();
        }
        self.entries.iter().map(NetworkLogEntry::in_words).collect::<Vec<_>>().join("\n")
    }
}

of_one! {
    /// Shows a workspace's IP address.
    WorkspaceIp
}
action! { WorkspaceIp -> WorkspaceAddress {
    name: "workspace_ip",
    title: "Show a workspace's IP address",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/ip"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Returns the IP address at which other workspaces reach this one if both allow it; null without a \
                  network. From the host, use port_forward.",
}}

/// A workspace's address.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceAddress {
    /// Id of the workspace.
    pub workspace_id: String,
    /// IP address; null without a network.
    pub ip: Option<String>,
}

impl Outcome for WorkspaceAddress {
    fn text(&self) -> String {
        match &self.ip {
            Some(ip) => ip.clone(),
            None => "the workspace has no network and so no address; network_policy gives it one, and port_forward \
                     reaches a port without"
                .to_owned(),
        }
    }
}
