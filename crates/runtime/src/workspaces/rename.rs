//! Renaming a workspace.

use std::time::Duration;

use agentiso_core::{Code, Failure, WorkspaceId, WorkspaceName};
use agentiso_proto::Configure;

use super::{WorkspaceView, Workspaces};

/// How long a machine may take to change its host name.
const LIMIT: Duration = Duration::from_secs(10);

impl Workspaces {
    /// Renames a workspace, and sets the host name of its machine if it runs. On failure the name does not change.
    pub async fn rename(&self, id: WorkspaceId, name: &WorkspaceName) -> Result<WorkspaceView, Failure> {
        let (workspace, lock) = self.lock(id).await?;
        // Read first: once the new name is committed, nothing may fail.
        let view = self.info(id)?;
        if workspace.name != *name {
            self.require_free_name(name)?;
            let _lock = lock.clone();
            match self.attach_locked(workspace.clone(), lock).await {
                Ok(attached) => {
                    let identity = Configure { hostname: Some(name.to_string()), ..Configure::default() };
                    let machine = attached.machine();
                    machine
                        .during("changing its host name", LIMIT, machine.guest().configure(identity))
                        .await?;
                }
                Err(failure) if failure.code() == Code::WorkspaceNotRunning => {}
                Err(failure) => return Err(failure),
            }
            self.meta.write(|tx| tx.rename_workspace(workspace.id, name))?;
            self.write_records();
        }
        Ok(WorkspaceView { name: name.clone(), ..view })
    }
}
