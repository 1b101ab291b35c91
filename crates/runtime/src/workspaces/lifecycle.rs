//! Starting and stopping a workspace.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::progress::Progress;
use agentiso_core::{Failure, WorkspaceId};
use agentiso_meta::Workspace;

use super::create::{stop_limit, tier_name};
use super::intent::{Intent, MachineDirName};
use super::machine::MachineState;
use super::views::view_of;
use super::{WorkspaceView, Workspaces};
use crate::start::{Identity, OnWake, StartDisk};

impl Workspaces {
    /// Starts a stopped workspace on its disk. Does nothing if it is running.
    pub async fn start(
        &self,
        id: WorkspaceId,
        progress: &Arc<dyn Progress>,
    ) -> Result<WorkspaceView, Failure> {
        let (workspace, _lock) = self.lock(id).await?;
        if let Some((state, machine)) = self.reach(&workspace).await? {
            self.connections.leave(workspace.id, machine);
            return Ok(view_of(&workspace, Some(&state)));
        }
        let image = self.installation.image(&workspace.image)?;
        let with = self.installation.ingredients_but_disk(&image, &workspace.resources, progress).await?;
        // Template files that it pins must not be removed before they are recorded.
        let _disks = self.use_disks()?;
        let dir_name = MachineDirName::new(workspace.id);
        let intent = Intent { machine_dirs: vec![dir_name], ..Intent::default() };
        let (undertaking, network) = self.network_at_start("start", &workspace, intent)?;
        let pending = self.pending_start(dir_name, workspace.disk, StartDisk::Existing, &with.host)?;
        let identity = Identity { id: workspace.id, hostname: workspace.name.to_string() };
        let ready = async {
            let started = self.installation.start_in(&with, &pending, false, progress).await?;
            identity.give_to(&started.machine, OnWake::Start).await?;
            if let Some(bytes) = started.disk_bytes {
                started.machine.announce_disk_size(bytes).await?;
            }
            let proxy = self.configure_card(workspace.id, &started.machine, &network).await?;
            Ok((started, proxy))
        };
        let ((started, proxy), attached) = self.attach_while(workspace.id, &network, ready).await?;
        let wired = self.plug(workspace.id, &started.machine, &network.rules, proxy, attached).await?;
        let mut state = self.lasting(&started.machine, dir_name, with.restore_key())?;
        state.card = wired.as_ref().map(|wired| wired.card.clone());
        let value = state.to_value()?;
        let workspace = undertaking.finish(|tx| {
            tx.set_running(workspace.id, &value)?;
            tx.set_network(workspace.id, &network)?;
            tx.set_tier(workspace.id, &tier_name(started.tier))?;
            tx.workspace(workspace.id)
        })?;
        if let Some(wired) = wired {
            wired.keep();
        }
        self.connections.leave(workspace.id, started.machine);
        Ok(view_of(&workspace, Some(&state)))
    }

    /// Stops a workspace: cleanly, unless `force` is set or it takes longer than `limit`. Returns whether it was a clean
    /// shutdown.
    ///
    /// With `force` QEMU is killed first, so that neither the guest nor another call that waits for it can delay that.
    /// Without it, a machine that cannot be reached within the limit is killed too.
    pub async fn stop(&self, id: WorkspaceId, force: bool, limit: Option<Duration>) -> Result<bool, Failure> {
        if force {
            self.switch_off(id).await?;
        }
        let (workspace, _lock) = self.lock(id).await?;
        let Some(state) = self.machine_of(&workspace)? else { return Ok(true) };
        let clean = if force {
            state.record.kill().await?;
            false
        } else {
            let limit = limit.unwrap_or_else(|| stop_limit(self));
            match tokio::time::timeout(limit, self.reach(&workspace)).await {
                Ok(Ok(None)) => return Ok(true),
                Ok(Ok(Some((_, machine)))) => machine.stop(limit).await,
                unreachable => {
                    let failure = unreachable.ok().and_then(Result::err).map(|failure| failure.to_string());
                    tracing::warn!(workspace = %workspace.id, ?failure, "killing a machine that cannot be reached");
                    state.record.kill().await?;
                    false
                }
            }
        };
        let reason =
            (!clean).then_some(if force { "it was switched off" } else { "it did not power off in time" });
        self.clear_up(&workspace, &state)?;
        self.meta.write(|tx| tx.set_stopped(workspace.id, reason))?;
        Ok(clean)
    }

    /// Kills the QEMU of a workspace without taking its lock: the holder of the lock may be waiting for the guest. The
    /// caller cleans up the stored record afterwards. Returns whether there was a QEMU.
    pub async fn switch_off(&self, id: WorkspaceId) -> Result<bool, Failure> {
        let workspace = self.meta.read(|read| read.workspace(id))?;
        match self.machine_of(&workspace)? {
            Some(state) => Ok(state.record.kill().await?),
            None => Ok(false),
        }
    }

    /// Removes the directory and cgroup of a machine that has ended.
    pub(crate) fn clear_up(&self, workspace: &Workspace, state: &MachineState) -> Result<(), Failure> {
        self.connections.forget(workspace.id);
        if workspace.network.address.is_some() {
            Arc::clone(&self.net).detach_soon(workspace.id);
        }
        let dir = self.installation.paths.workspaces_dir();
        let removed = state.dir.remove(&dir);
        removed.map_err(|error| self.installation.io("remove a machine's directory", error))?;
        self.own_stopped(workspace.disk);
        state.record.remove_group();
        Ok(())
    }
}
