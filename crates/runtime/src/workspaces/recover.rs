//! Recovering from processes that were killed.
//!
//! An undertaking whose process is dead is completed or undone by the next process: a machine that was switched to
//! another disk stays on it, and everything else that the database does not refer to is removed. QEMUs that belong to no
//! workspace are killed first (see `strays`).
//!
//! If anything cannot be determined (the database, a directory or QEMU cannot be read), the operation stays recorded,
//! nothing of it is removed, and its workspace cannot be used until a later recovery succeeds.

use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_core::ports::DiskError;
use agentiso_core::{Code, DiskId, Failure, WorkspaceId};
use agentiso_meta::{Operation, OperationId, Workspace};
use agentiso_vmm::qemu::node_name;
use agentiso_vmm::{Machine, VmError};
use serde_json::json;

use super::Workspaces;
use super::files::exists;
use super::freeze::commit_switch;
use super::intent::{Intent, Switch};
use super::lock::WorkspaceLock;
use super::machine::MachineState;
use super::strays::{end, qemus_on};

/// How long a guest may take to resume its processes.
const RELEASE_LIMIT: Duration = Duration::from_secs(10);

/// The state of the new disk of an interrupted switch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Recovered {
    Whole,
    Damaged,
}

impl Workspaces {
    /// Completes or undoes the operations of dead processes. What fails is logged and left for a later recovery; its
    /// workspace cannot be used until then.
    pub(crate) async fn recover(&self) -> Result<(), Failure> {
        self.note_abandoned();
        let operations = self.meta.read(|read| read.operations())?;
        let mut done = Vec::new();
        for operation in operations.iter().filter(|operation| !operation.owner.is_alive()) {
            // A process that has the workspace locked has recovered it first.
            let Ok(_lock) = self.lock_to_recover(operation).await? else { continue };
            match self.take_on(operation).await {
                Ok(true) => done.push(operation.id),
                Ok(false) => {}
                Err(failure) => tracing::warn!(%failure, kind = operation.kind, "could not clean up yet"),
            }
        }
        self.conclude_recovery(&done)
    }

    /// The same for one workspace that the caller has locked.
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

    /// Locks the workspace of an operation, if it has one. The inner error means that another process has it locked.
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

    /// Recovers one operation. Returns false if another process took it.
    async fn take_on(&self, operation: &Operation) -> Result<bool, Failure> {
        if !self.meta.write(|tx| tx.adopt(operation))? {
            return Ok(false);
        }
        tracing::info!(kind = operation.kind, "recovering an operation that was interrupted or failed");
        if let Err(failure) = self.recover_one(operation).await {
            // Release it: this process may live long, and a later attempt may succeed.
            self.abandon(&[operation.id]);
            return Err(failure);
        }
        Ok(true)
    }

    /// Removes what recovered operations left behind, then deletes the operations.
    fn conclude_recovery(&self, done: &[OperationId]) -> Result<(), Failure> {
        if done.is_empty() {
            return Ok(());
        }
        let concluded = self
            .remove_unknown_machine_dirs()
            .and_then(|()| self.remove_unneeded_after(done))
            .and_then(|()| Ok(self.meta.write(|tx| done.iter().try_for_each(|&id| tx.complete(id)))?));
        if concluded.is_err() {
            self.abandon(done);
        }
        concluded
    }

    async fn recover_one(&self, operation: &Operation) -> Result<(), Failure> {
        let mut intent = Intent::of(operation)?;
        if let Some(switch) = intent.switch
            && self.recover_switch(switch).await? == Recovered::Damaged
        {
            // Not removed with the rest: the sweep moves it to `lost/`.
            intent.disks.retain(|&disk| disk != switch.to);
        }
        if let Some(disk) = intent.collapse {
            self.recover_collapse(disk)?;
        }
        self.end_strays(&intent)?;
        if let Some(id) = operation.workspace
            && let Some(workspace) = self.meta.read(|read| read.workspace_if_known(id))?
            && let Some((_, machine)) = self.reach(&workspace).await?
        {
            // Reconnecting has resumed the machine if it was paused. Its processes may still be held.
            let released = machine.during("resuming", RELEASE_LIMIT, machine.guest().release()).await;
            self.connections.leave(id, machine);
            // It does not matter if the machine has ended or had nothing to release.
            if let Err(error @ VmError::NoAnswer { .. }) = released {
                return Err(error.into());
            }
        }
        self.remove_unknown(&intent)
    }

    /// Records the switch to the new disk if the machine writes to it, or has ended and may have written to it.
    async fn recover_switch(&self, switch: Switch) -> Result<Recovered, Failure> {
        let known = self.meta.read(|read| read.workspace_if_known(switch.workspace))?;
        let Some(workspace) = known else { return Ok(Recovered::Whole) };
        let path = self.installation.disk_path(switch.to);
        let found =
            in_place(|| exists(&path)).map_err(|error| self.installation.io("look for a disk", error))?;
        if workspace.disk != switch.from || !found {
            return Ok(Recovered::Whole);
        }
        let switched = match self.reach(&workspace).await? {
            Some((state, machine)) => {
                let writes_to = disk_node(&machine).await;
                self.connections.leave(workspace.id, machine);
                let writes_to = writes_to?;
                let is_on = |disk| writes_to == node_name(&self.installation.disk_path(disk));
                // If it writes to neither disk, nothing is touched: one of them may be in use some other way.
                if !is_on(switch.to) && !is_on(switch.from) {
                    let message = format!("the machine of {} writes to an unknown disk", workspace.name);
                    return Err(Failure::new(Code::Internal, message)
                        .with_remedy(format!("end its QEMU and try again: kill {}", state.record.pid)));
                }
                is_on(switch.to)
            }
            None => match self.installation.disks().parent(&path) {
                Ok(_) => true,
                // A disk gets its name when it is complete, so a damaged one may contain what the guest wrote before
                // the host crashed. The workspace continues on the old disk, and the damaged one is kept.
                Err(DiskError::BadDisk { .. }) => return Ok(Recovered::Damaged),
                Err(error) => return Err(error.into()),
            },
        };
        if switched {
            let frozen = self.meta.write(|tx| commit_switch(tx, &workspace, switch.to))?;
            self.own_frozen(frozen);
        }
        Ok(Recovered::Whole)
    }

    /// Records the backing file that the rewritten disk has now.
    fn recover_collapse(&self, disk: DiskId) -> Result<(), Failure> {
        let Some(row) = self.meta.read(|read| read.disk_if_known(disk))? else { return Ok(()) };
        let parent = self.parent_of(disk)?;
        if row.parent != parent {
            self.meta.write(|tx| tx.set_disk_parent(disk, parent, row.span))?;
        }
        Ok(())
    }

    /// Kills QEMUs on our disks that belong to no workspace.
    fn end_strays(&self, intent: &Intent) -> Result<(), Failure> {
        let known = self.known_machines()?;
        let dir = self.installation.paths.disks_dir();
        let failed = |error| self.installation.io("look for QEMU processes", error);
        for (pid, disk) in qemus_on(&dir).map_err(failed)? {
            let is_known = known.iter().any(|machine| machine.record.pid == pid);
            let ours = intent.disks.contains(&disk)
                || self.meta.read(|read| read.disk_if_known(disk))?.is_some()
                    && !self.is_busy_elsewhere(disk)?;
            if !is_known && ours {
                end(pid).map_err(|error| self.installation.io("end a QEMU that no workspace has", error))?;
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

    /// Whether another living process works on a disk or its workspace.
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

/// QEMU's node name of the disk that a machine writes to. Its file name is no use: it depends on how the backing file is
/// spelt.
async fn disk_node(machine: &Machine) -> Result<String, Failure> {
    let blocks = machine.qmp().execute("query-block", json!({})).await.map_err(VmError::from)?;
    let root = blocks.as_array().and_then(|blocks| blocks.iter().find(|block| block["device"] == "root"));
    let node = root.and_then(|root| root["inserted"]["node-name"].as_str()).unwrap_or_default();
    Ok(node.to_owned())
}
