//! Starting and stopping a workspace.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};

use super::create::{stop_limit, tier_name};
use super::intent::{BerthName, Intent};
use super::{WorkspaceView, Workspaces};
use crate::start::{BerthDisk, Identity, OnWake};

impl Workspaces {
    /// Starts a stopped workspace on its disk. One that runs is left as it is.
    pub async fn start(&self, asked: &str, progress: &Arc<dyn Progress>) -> Result<WorkspaceView, Failure> {
        let (workspace, _lock) = self.lock(asked).await?;
        if let Some((state, machine)) = self.reach(&workspace).await? {
            self.held.leave(workspace.id, machine);
            return Ok(WorkspaceView::of(&workspace, Some(&state)));
        }
        let image = self.installation.images()?.get(&workspace.image)?;
        let with = self.installation.ingredients_but_disk(&image, &workspace.resources, progress).await?;
        // What it stands on must not be removed before the database knows that it does.
        let _disks = self.use_disks()?;
        let berth_name = BerthName::new(workspace.id);
        let intent = Intent { berths: vec![berth_name], ..Intent::default() };
        let undertaking = self.undertake("start", Some(workspace.id), intent)?;
        let berth = self.berth(berth_name, workspace.disk, BerthDisk::Existing, &with.host)?;
        let started = self.installation.start_in(&with, &berth, false, progress).await?;
        let identity = Identity { id: workspace.id, hostname: workspace.name.to_string() };
        identity.give_to(&started.machine, OnWake::Start).await?;
        if let Some(bytes) = started.disk_bytes {
            started.machine.announce_disk_size(bytes).await?;
        }
        let state = self.lasting(&started.machine, berth_name, with.restore_key())?;
        let value = state.to_value()?;
        let workspace = undertaking.finish(|tx| {
            tx.set_running(workspace.id, &value)?;
            tx.set_tier(workspace.id, &tier_name(started.tier))?;
            tx.workspace(workspace.id)
        })?;
        self.held.leave(workspace.id, started.machine);
        Ok(WorkspaceView::of(&workspace, Some(&state)))
    }

    /// Stops a workspace: cleanly, unless `force` or unless it takes longer than `limit`. Returns whether its file
    /// system was left clean.
    pub async fn stop(&self, asked: &str, force: bool, limit: Option<Duration>) -> Result<bool, Failure> {
        let (workspace, lock) = self.lock(asked).await?;
        let attached = match self.attach_locked(workspace.clone(), lock).await {
            Err(failure) if failure.code() == Code::WorkspaceNotRunning => return Ok(true),
            other => other?,
        };
        let (machine, state, _) = attached.into_machine();
        self.held.forget(workspace.id);
        let clean = match machine {
            Some(machine) if force => {
                machine.kill().await;
                false
            }
            Some(machine) => machine.stop(limit.unwrap_or_else(|| stop_limit(self))).await,
            None => true,
        };
        let reason =
            (!clean).then_some(if force { "it was switched off" } else { "it did not power off in time" });
        let dir = self.installation.paths.workspaces_dir();
        state
            .berth
            .remove(&dir)
            .map_err(|error| self.installation.io("remove a machine's directory", error))?;
        self.meta.write(|tx| tx.set_stopped(workspace.id, reason))?;
        Ok(clean)
    }
}
