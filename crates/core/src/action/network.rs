//! Port forwards and network rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{MIN_HOST_PORT, WorkspaceReference};
use super::workspace::{Forward, of_one};
use crate::NetworkRules;

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
    /// Port on 127.0.0.1 of the host, 1024 or higher. Default: a free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_HOST_PORT))]
    pub host_port: Option<u16>,
}
action! { PortForward -> PortForwarded {
    name: "port_forward_add",
    title: "Forward a port",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/forwards"],
    tools: [],
    effect: Changes,
    flags: [idempotent],
    description: "Makes a TCP port of a workspace reachable on 127.0.0.1 of the host; the workspace needs no \
                  network. The forward survives restarts and restores until it is removed. Without host_port, an \
                  existing forward of the port is returned; with another host_port, a second forward is added.",
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
}

impl Outcome for PortForwarded {
    fn text(&self) -> String {
        format!("Forwarding 127.0.0.1:{} -> {}", self.host_port, self.guest_port)
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

/// Changes the network rules of a workspace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkPolicy {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Must be false or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_internet: Option<bool>,
    /// Must be false or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_inter_vm: Option<bool>,
    /// Must be empty or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_ports: Option<Vec<u16>>,
}
action! { NetworkPolicy -> NetworkPolicySet {
    name: "network_policy",
    title: "Change network rules",
    subjects: [Workspace(workspace_id)],
    routes: [Put "/v1/workspaces/{workspace_id}/network"],
    tools: [Full],
    effect: Changes,
    flags: [idempotent],
    description: "Sets what a workspace can reach. Workspaces have no network yet, so only false is accepted; true \
                  is refused and changes nothing. Port forwards work without a network.",
}}

/// The network rules of a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NetworkPolicySet {
    /// Id of the workspace.
    pub workspace_id: String,
    /// The rules.
    pub network_policy: NetworkRules,
}

impl Outcome for NetworkPolicySet {
    fn text(&self) -> String {
        "the workspace has no network: internet off, other workspaces off, no open ports".to_owned()
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
    description: "Returns a workspace's IP address. Workspaces have no network yet, so it is null; use port_forward \
                  to reach a port.",
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
            None => {
                "the workspace has no network and so no address; use port_forward to reach a port".to_owned()
            }
        }
    }
}
