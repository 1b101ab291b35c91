//! Removing a workspace and everything that was only its own.

use agentiso_core::{Code, Failure};

use super::Workspaces;
use super::intent::Intent;

/// A workspace to remove.
#[derive(Clone, Debug)]
pub struct RemoveRequest {
    /// Which.
    pub workspace: String,
    /// Even if it runs.
    pub force: bool,
}

impl Workspaces {
    /// Removes a workspace, its snapshots and its machine. Forks of it are not disturbed.
    pub async fn remove(&self, request: &RemoveRequest) -> Result<(), Failure> {
        let (workspace, lock) = self.lock(&request.workspace).await?;
        if let Some((state, machine)) = self.reach(&workspace).await? {
            if !request.force {
                self.held.leave(workspace.id, machine);
                return Err(Failure::new(
                    Code::WorkspaceRunning,
                    format!("the workspace {:?} is running", workspace.name.as_str()),
                )
                .with_remedy(format!("stop it first, or force it: agentiso rm --force {}", workspace.name)));
            }
            machine.kill().await;
            self.held.forget(workspace.id);
            let dir = self.installation.paths.workspaces_dir();
            state
                .berth
                .remove(&dir)
                .map_err(|error| self.installation.io("remove a machine's directory", error))?;
            self.meta.write(|tx| tx.set_stopped(workspace.id, Some("it is being removed")))?;
        }
        let undertaking = self.undertake("remove", Some(workspace.id), Intent::default())?;
        undertaking.settle(|tx| tx.remove_workspace(workspace.id))?;
        self.remove_unneeded()?;
        lock.remove(&self.installation.paths.workspaces_dir(), workspace.id);
        undertaking.finish(|_| Ok(()))
    }
}
