//! Removing a workspace and everything that only it uses.

use agentiso_core::{Code, Failure};

use super::intent::Intent;
use super::{RemoveRequest, Workspaces};

impl Workspaces {
    /// Removes a workspace, its snapshots and its machine. Forks of it are not affected. With `force` its QEMU is killed
    /// first, so that the guest cannot delay the removal.
    pub async fn remove(&self, request: &RemoveRequest) -> Result<(), Failure> {
        self.installation.make_room();
        let mut done = self.try_remove(request).await;
        if self.installation.makes_room_after(&done) {
            done = self.try_remove(request).await;
        }
        self.installation.keep_reserve();
        done
    }

    async fn try_remove(&self, request: &RemoveRequest) -> Result<(), Failure> {
        if request.force {
            self.switch_off(request.workspace).await?;
        }
        let (workspace, lock) = self.lock(request.workspace).await?;
        if let Some(state) = self.machine_of(&workspace)? {
            if !request.force && state.record.is_alive() {
                return Err(Failure::new(
                    Code::WorkspaceRunning,
                    format!("the workspace {:?} is running", workspace.name.as_str()),
                )
                .with_remedy(format!("stop it first, or force it: agentiso rm --force {}", workspace.name)));
            }
            // It may have been started while this waited for the lock.
            state.record.kill().await?;
            self.clear_up(&workspace, &state)?;
            self.meta.write(|tx| tx.set_stopped(workspace.id, Some("it is being removed")))?;
        }
        let undertaking = self.undertake("remove", Some(workspace.id), Intent::default())?;
        undertaking.settle(|tx| tx.remove_workspace(workspace.id))?;
        self.remove_unneeded()?;
        lock.remove(&self.installation.paths.workspaces_dir(), workspace.id);
        undertaking.finish(|_| Ok(()))
    }
}
