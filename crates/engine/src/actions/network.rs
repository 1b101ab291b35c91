//! Port forwards and network settings.

use agentiso_core::action::{
    Forward, NetworkPolicy, NetworkPolicySet, PortForward, PortForwardList, PortForwardRemove,
    PortForwardRemoved, PortForwarded, PortForwards, WorkspaceAddress, WorkspaceIp,
};
use agentiso_core::{Code, Failure, NetworkRules};

use super::workspaces::refuse_internet;
use crate::act::Context;
use crate::{Access, Perform};

impl Perform for PortForward {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<PortForwarded, Failure> {
        let workspace = context.workspace()?;
        let host_port = context.engine.forward(workspace.id, self.guest_port, self.host_port).await?;
        Ok(PortForwarded { workspace_id: workspace.id.to_string(), guest_port: self.guest_port, host_port })
    }

    fn changed(outcome: &PortForwarded) -> Option<String> {
        Some(format!("forwarding 127.0.0.1:{} -> {}", outcome.host_port, outcome.guest_port))
    }
}

impl Perform for PortForwardRemove {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<PortForwardRemoved, Failure> {
        let workspace = context.workspace()?;
        let removed = context.engine.end_forward(workspace.id, self.guest_port, self.host_port).await?;
        let workspace_id = workspace.id.to_string();
        Ok(PortForwardRemoved { workspace_id, guest_port: self.guest_port, removed })
    }

    fn changed(outcome: &PortForwardRemoved) -> Option<String> {
        outcome.removed.then(|| format!("stopped forwarding to port {}", outcome.guest_port))
    }
}

impl Perform for PortForwardList {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<PortForwards, Failure> {
        let id = context.workspace()?.id;
        let known = context.engine.records.forwards_of(id).await?;
        let open = context.engine.open_ports(id);
        let forwards = known.iter().filter(|one| open.contains(&one.host_port));
        let forwards = forwards.map(|one| Forward { host_port: one.host_port, guest_port: one.guest_port });
        Ok(PortForwards { forwards: forwards.collect() })
    }
}

impl Perform for NetworkPolicy {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<NetworkPolicySet, Failure> {
        refuse_internet(self.allow_internet)?;
        if self.allow_inter_vm == Some(true) || self.allowed_ports.is_some_and(|ports| !ports.is_empty()) {
            return Err(Failure::new(
                Code::NetworkUnavailable,
                "workspaces have no network, so nothing can be allowed on it",
            )
            .with_remedy("use port_forward to reach a port of a workspace"));
        }
        let workspace_id = context.workspace()?.id.to_string();
        Ok(NetworkPolicySet { workspace_id, network_policy: NetworkRules::default() })
    }
}

impl Perform for WorkspaceIp {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<WorkspaceAddress, Failure> {
        Ok(WorkspaceAddress { workspace_id: context.workspace()?.id.to_string(), ip: None })
    }
}
