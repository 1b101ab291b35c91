//! Port forwards and network settings.

use agentiso_core::action::{
    NetworkPolicy, NetworkPolicySet, PackageHost, PortForward, PortForwardList, PortForwardRemove,
    PortForwardRemoved, PortForwarded, PortForwards, WorkspaceAddress, WorkspaceIp,
};
use agentiso_core::{Failure, NetworkState, WorkspaceId};

use crate::act::Context;
use crate::events::EventKind;
use crate::{Access, Engine, Perform};

impl Perform for PortForward {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<PortForwarded, Failure> {
        let workspace = context.workspace()?;
        let host_port =
            context.engine.forward(workspace, context.other(), self.guest_port, self.host_port).await?;
        let to = context.other().map(|other| other.id.to_string());
        Ok(PortForwarded {
            workspace_id: workspace.id.to_string(),
            guest_port: self.guest_port,
            host_port,
            to,
        })
    }

    fn changed(outcome: &PortForwarded) -> Option<String> {
        let to = outcome.to.as_ref().map(|to| format!(" of {to}")).unwrap_or_default();
        Some(format!("forwarding 127.0.0.1:{} -> {}{to}", outcome.host_port, outcome.guest_port))
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
        Ok(PortForwards { forwards: context.engine.shown_forwards(id).await? })
    }
}

impl Perform for NetworkPolicy {
    const ACCESS: Access = Access::Copies;

    async fn perform(self, context: &Context) -> Result<NetworkPolicySet, Failure> {
        let (engine, id) = (&context.engine, context.workspace()?.id);
        let change = self.change();
        let live = engine.live.of(id);
        let _turn = live.network_lock.lock().await;
        let workspace = engine.records.workspace(id).await?;
        if change.is_empty() {
            return shown(engine, id, workspace.network, Vec::new()).await;
        }
        let running = workspace.machine().is_some().then_some(id);
        let old = &workspace.network.rules;
        let new = engine.rules_after(&context.caller, old, &change, running).await?;
        if change.sets_lists() {
            // What is listed now stays, so what was granted for a limited time may not be listed by a session.
            let lasting = engine.lasting_rules(id, old).await?;
            engine.require_no_wider(&context.caller, &lasting, &new.rules)?;
        }
        let state = engine.host.set_network(id, &new.rules).await?;
        if change.sets_lists() {
            engine.settle_grants(id).await?;
        }
        if state != workspace.network {
            let note = Some(state.rules.in_words());
            engine.events.tell(EventKind::NetworkChanged, id, workspace.name.as_str(), note).await;
        }
        shown(engine, id, state, new.package_hosts).await
    }

    fn changed(outcome: &NetworkPolicySet) -> Option<String> {
        Some(outcome.network_policy.in_words())
    }
}

async fn shown(
    engine: &Engine,
    id: WorkspaceId,
    state: NetworkState,
    package_hosts: Vec<PackageHost>,
) -> Result<NetworkPolicySet, Failure> {
    let open = engine.open_for_now(id).await?;
    Ok(NetworkPolicySet {
        workspace_id: id.to_string(),
        network_policy: state.rules,
        ip: state.address.map(|address| address.to_string()),
        package_hosts,
        open_for_now: open.iter().map(ToString::to_string).collect(),
    })
}

impl Perform for WorkspaceIp {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<WorkspaceAddress, Failure> {
        let workspace = context.workspace()?;
        let ip = workspace.network.address.map(|address| address.to_string());
        Ok(WorkspaceAddress { workspace_id: workspace.id.to_string(), ip })
    }
}
