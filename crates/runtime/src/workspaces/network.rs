//! What workspaces may reach.

use agentiso_core::{Code, Failure, NetworkRules, NetworkState, WorkspaceId};

use super::Workspaces;

impl Workspaces {
    /// Changes what a workspace may reach.
    pub async fn set_network(&self, id: WorkspaceId, rules: &NetworkRules) -> Result<NetworkState, Failure> {
        let (workspace, _lock) = self.lock(id).await?;
        if rules.is_off() {
            return Ok(workspace.network);
        }
        Err(Failure::new(Code::NetworkUnavailable, "workspaces have no network"))
    }
}
