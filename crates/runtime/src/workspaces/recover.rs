//! Cleaning up after commands that were killed.
//!
//! An undertaking whose owner is dead is finished or undone here, by whichever command comes next: a machine that was
//! moved to another disk stays there, everything else that the database does not know goes. QEMUs that no workspace
//! has are ended; they are found by the disks on their command lines.

use std::fs;
use std::path::Path;
use std::time::Duration;

use agentiso_core::ports::DiskError;
use agentiso_core::{Code, DiskId, Failure, WorkspaceId};
use agentiso_meta::{Operation, OperationId, Workspace};
use agentiso_vmm::qemu::node_name;
use agentiso_vmm::{Machine, VmError};
use serde_json::json;

use super::Workspaces;
use super::capture::commit_switch;
use super::intent::{Intent, Switch};
use super::lock::WorkspaceLock;
use super::machine::MachineState;
use crate::hold::disk_id_of;

/// How long a guest may take to go on.
const RELEASE_LIMIT: Duration = Duration::from_secs(10);

impl Workspaces {
    /// Finishes or undoes what dead commands left half done. What cannot be now stays for later, and keeps everyone
    /// from its workspace until then.
    pub(crate) async fn recover(&self) -> Result<(), Failure> {
        self.note_abandoned();
        let operations = self.meta.read(|read| read.operations())?;
        let mut done = Vec::new();
        for operation in operations.iter().filter(|operation| !operation.owner.is_alive()) {
            // Whoever is at work on the workspace has seen to this before.
            let Ok(_lock) = self.lock_to_recover(operation).await? else { continue };
            match self.take_on(operation).await {
                Ok(true) => done.push(operation.id),
                Ok(false) => {}
                Err(failure) => tracing::warn!(%failure, kind = operation.kind, "could not clean up yet"),
            }
        }
        self.conclude_recovery(&done)
    }

    /// The same for one workspace, which the caller has locked.
    pub(super) async fn recover_locked(&self, id: WorkspaceId) -> Result<(), Failure> {
        self.note_abandoned();
        let operations = self.meta.read(|read| read.operations_on(id))?;
        let mut done = Vec::new();
        for operation in operations.iter().filter(|operation| !operation.owner.is_alive()) {
            if self.take_on(operation).await? {
                done.push(operation.id);
            }
        }
        self.conclude_recovery(&done)
    }

    /// Keeps everyone from the workspace of an operation, if it has one. The outer error is a failure, the inner one
    /// says that somebody else keeps us from it.
    async fn lock_to_recover(
        &self,
        operation: &Operation,
    ) -> Result<Result<Option<WorkspaceLock>, ()>, Failure> {
        let Some(id) = operation.workspace else { return Ok(Ok(None)) };
        if self.meta.read(|read| read.workspace_if_known(id))?.is_none() {
            return Ok(Ok(None));
        }
        let dir = self.installation.paths.workspaces_dir();
        let taken = WorkspaceLock::take(&dir, id, Duration::ZERO).await;
        let taken = taken.map_err(|error| self.installation.io("lock the workspace", error))?;
        Ok(taken.map(Some).ok_or(()))
    }

    /// Returns whether it was ours to do.
    async fn take_on(&self, operation: &Operation) -> Result<bool, Failure> {
        if !self.meta.write(|tx| tx.adopt(operation))? {
            return Ok(false);
        }
        tracing::info!(kind = operation.kind, "cleaning up after a command that was killed or failed");
        if let Err(failure) = self.recover_one(operation).await {
            // Not ours any more: this process may live long, and others could try.
            self.abandon(&[operation.id]);
            return Err(failure);
        }
        Ok(true)
    }

    /// Removes what operations left behind before they are forgotten.
    fn conclude_recovery(&self, done: &[OperationId]) -> Result<(), Failure> {
        if done.is_empty() {
            return Ok(());
        }
        let concluded = self
            .remove_unknown_berths()
            .and_then(|()| self.remove_unneeded_after(done))
            .and_then(|()| Ok(self.meta.write(|tx| done.iter().try_for_each(|&id| tx.complete(id)))?));
        if concluded.is_err() {
            self.abandon(done);
        }
        concluded
    }

    async fn recover_one(&self, operation: &Operation) -> Result<(), Failure> {
        let intent = Intent::of(operation)?;
        if let Some(switch) = intent.switch {
            self.recover_switch(switch).await?;
        }
        if let Some(disk) = intent.collapse {
            self.recover_collapse(disk)?;
        }
        self.end_strays(&intent)?;
        if let Some(id) = operation.workspace
            && let Some(workspace) = self.meta.read(|read| read.workspace_if_known(id))?
            && let Some((_, machine)) = self.reach(&workspace).await?
        {
            // Coming back to it has made it go on, should it have been left standing still.
            let released = machine.during("going on", RELEASE_LIMIT, machine.guest().release()).await;
            self.held.leave(id, machine);
            // A machine that has ended meanwhile, or has nothing to release, is as good.
            if let Err(error @ VmError::NoAnswer { .. }) = released {
                return Err(error.into());
            }
        }
        self.remove_unknown(&intent)
    }

    /// A machine writes to the new disk, or it has ended and may have: either way it is on the new disk from now on,
    /// unless QEMU says that it is not.
    async fn recover_switch(&self, switch: Switch) -> Result<(), Failure> {
        let known = self.meta.read(|read| read.workspace_if_known(switch.workspace))?;
        let Some(workspace) = known else { return Ok(()) };
        let path = self.installation.disk_path(switch.to);
        if workspace.disk != switch.from || !path.exists() {
            return Ok(());
        }
        let switched = match self.reach(&workspace).await? {
            Some((state, machine)) => {
                let writes_to = disk_node(&machine).await;
                self.held.leave(workspace.id, machine);
                let writes_to = writes_to?;
                let is_on = |disk| writes_to == node_name(&self.installation.disk_path(disk));
                // The disk it writes to is never removed: if it is neither, nothing is touched.
                if !is_on(switch.to) && !is_on(switch.from) {
                    let message = format!("the machine of {} writes to an unknown disk", workspace.name);
                    return Err(Failure::new(Code::Internal, message)
                        .with_remedy(format!("end its QEMU and try again: kill {}", state.record.pid)));
                }
                is_on(switch.to)
            }
            // A disk that could not be made whole was never switched to.
            None => match self.installation.disks().parent(&path) {
                Ok(_) => true,
                Err(DiskError::BadDisk { .. }) => false,
                // Whether it is whole cannot be told now, so nothing is decided.
                Err(error) => return Err(error.into()),
            },
        };
        if switched {
            let frozen = self.meta.write(|tx| commit_switch(tx, &workspace, switch.to))?;
            self.own_frozen(frozen);
        }
        Ok(())
    }

    /// The file says what its disk stands on.
    fn recover_collapse(&self, disk: DiskId) -> Result<(), Failure> {
        let Some(row) = self.meta.read(|read| read.disk_if_known(disk))? else { return Ok(()) };
        let parent = self.parent_of(disk)?;
        if row.parent != parent {
            self.meta.write(|tx| tx.set_disk_parent(disk, parent, row.span))?;
        }
        Ok(())
    }

    /// Ends QEMUs on disks of ours that belong to no workspace.
    fn end_strays(&self, intent: &Intent) -> Result<(), Failure> {
        let known = self.known_machines()?;
        let dir = self.installation.paths.disks_dir();
        for (pid, disk) in qemus_on(&dir) {
            let is_known = known.iter().any(|machine| machine.record.pid == pid);
            let ours = intent.disks.contains(&disk)
                || self.meta.read(|read| read.disk_if_known(disk))?.is_some()
                    && !self.is_busy_elsewhere(disk)?;
            if !is_known && ours {
                end(pid);
            }
        }
        Ok(())
    }

    pub(super) fn known_machines(&self) -> Result<Vec<MachineState>, Failure> {
        let (workspaces, pool) = self.meta.read(|read| Ok((read.workspaces()?, read.pool()?)))?;
        let machines =
            workspaces.iter().filter_map(Workspace::machine).chain(pool.iter().map(|one| &one.machine));
        machines.map(MachineState::from_value).collect()
    }

    /// Whether a living command is at work with a disk, directly or by its workspace.
    fn is_busy_elsewhere(&self, disk: DiskId) -> Result<bool, Failure> {
        let (operations, workspaces) = self.meta.read(|read| Ok((read.operations()?, read.workspaces()?)))?;
        let owner = workspaces.iter().find(|workspace| workspace.disk == disk).map(|workspace| workspace.id);
        let me = std::process::id();
        for operation in operations.iter().filter(|one| one.owner.is_alive() && one.owner.pid != me) {
            let intent = Intent::of(operation)?;
            if intent.disks.contains(&disk) || (owner.is_some() && operation.workspace == owner) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What QEMU calls the disk a machine writes to. What it says about the file's name depends on how its backing file was
/// spelt.
async fn disk_node(machine: &Machine) -> Result<String, Failure> {
    let blocks = machine.qmp().execute("query-block", json!({})).await.map_err(VmError::from)?;
    let root = blocks.as_array().and_then(|blocks| blocks.iter().find(|block| block["device"] == "root"));
    let node = root.and_then(|root| root["inserted"]["node-name"].as_str()).unwrap_or_default();
    Ok(node.to_owned())
}

/// Processes that have a disk of `dir` on their command line.
pub(super) fn qemus_on(dir: &Path) -> Vec<(u32, DiskId)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        for word in command.split(|&byte| byte == 0) {
            let Some(path) = std::str::from_utf8(word).ok().and_then(|word| word.rsplit_once("file=")) else {
                continue;
            };
            let path = path.1.replace(",,", ",");
            if Path::new(&path).parent() == Some(dir)
                && let Some(disk) = disk_id_of(Path::new(&path))
            {
                found.push((pid, disk));
            }
        }
    }
    found
}

/// Ends a process and waits until it is gone.
pub(super) fn end(pid: u32) {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if pidfd_send_signal(&process, Signal::KILL).is_ok() {
        let mut watched = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
        let limit = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
        // It was sent a signal it cannot refuse; should it linger, its disk is busy and the next start says so.
        let _ = rustix::event::poll(&mut watched, Some(&limit));
    }
}
