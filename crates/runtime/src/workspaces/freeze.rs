//! Freezing a workspace's disk and memory at one instant, for snapshots, forks and comparisons.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use agentiso_core::ports::{DiskCopy, DiskError, DiskSource, Disks, Freezing};
use agentiso_core::{DiskId, Failure};
use agentiso_meta::{Disk, MetaError, Tx, Workspace};
use agentiso_proto::{Configure, Wake};
use agentiso_vmm::{DiskFreeze, Prepared, SaveRequest, SavedState, TakeMemory, VmError};

use super::base::insert_disk;
use super::intent::Switch;
use super::undertaking::Undertaking;
use super::{Attached, Workspaces};
use crate::start::{now_ns, set_again};

/// What to freeze of a running workspace, and how consistent it must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum What {
    /// The disk, with the guest's file system flushed and frozen.
    Disk,
    /// The disk between two writes, without flushing.
    DiskAsItIs,
    /// Memory and disk, with the guest's file system flushed.
    Everything,
    /// Memory and disk without flushing: unwritten data is in the memory.
    EverythingAsItIs,
}

impl Workspaces {
    /// The switch of disks that freezing a workspace involves; `None` for back ends that copy.
    pub(crate) fn switch(&self, workspace: &Workspace, fresh: DiskId) -> Option<Switch> {
        let switch = Switch { workspace: workspace.id, from: workspace.disk, to: fresh };
        (self.installation.disks().freezing() == Freezing::Overlay).then_some(switch)
    }

    /// Freezes a running workspace. `fresh` is the id of the new disk. Returns the frozen disk, which is in the database
    /// then, and the saved state.
    pub(crate) async fn freeze_running(
        &self,
        attached: &Attached,
        undertaking: &Undertaking<'_>,
        what: What,
        fresh: DiskId,
        memory: TakeMemory,
    ) -> Result<(DiskId, SavedState), Failure> {
        let prepared = self.prepare_save(attached, fresh, memory).await?;
        self.freeze_prepared(attached, undertaking, what, fresh, prepared).await
    }

    /// Does everything that does not need the guest to be paused.
    pub(crate) async fn prepare_save(
        &self,
        attached: &Attached,
        fresh: DiskId,
        memory: TakeMemory,
    ) -> Result<Prepared, Failure> {
        let disk = self.prepare_freeze(attached, fresh)?;
        let request = SaveRequest { memory, disk: Some(disk) };
        Ok(attached.machine().prepare(request).await?)
    }

    /// Freezes a running workspace after [`Self::prepare_save`].
    pub(crate) async fn freeze_prepared(
        &self,
        attached: &Attached,
        undertaking: &Undertaking<'_>,
        what: What,
        fresh: DiskId,
        prepared: Prepared,
    ) -> Result<(DiskId, SavedState), Failure> {
        let workspace = &attached.workspace;
        if let Err(error) = self.hold_guest(attached, what).await {
            attached.machine().give_up(prepared).await;
            return Err(error.into());
        }
        let captured = attached.machine().take(prepared).await;
        let resumed = self.resume_guest(attached, what).await;
        let switched = captured.as_ref().map_or_else(|failed| failed.switched, |done| done.switched);
        let copied = captured.is_ok() && !switched;
        let frozen = undertaking.settle(|tx| match (switched, copied) {
            (true, _) => commit_switch(tx, workspace, fresh),
            (false, true) => commit_copy(tx, fresh),
            (false, false) => Ok(fresh),
        })?;
        if switched || copied {
            self.own_frozen(frozen);
        }
        let captured = captured.map_err(|failed| failed.error)?;
        resumed?;
        Ok((frozen, captured))
    }

    /// Freezes the disk of a stopped workspace.
    pub(crate) fn freeze_stopped(
        &self,
        workspace: &Workspace,
        undertaking: &Undertaking<'_>,
        fresh: DiskId,
    ) -> Result<DiskId, Failure> {
        let from = self.installation.disk_path(workspace.disk);
        let bytes = workspace.resources.disk_bytes();
        let to = self.installation.disk_path(fresh);
        self.installation.create_disk(&to, &DiskSource::Layer(from), bytes)?;
        let frozen = undertaking.settle(|tx| match self.installation.disks().freezing() {
            Freezing::Overlay => commit_switch(tx, workspace, fresh),
            Freezing::Copy => commit_copy(tx, fresh),
        })?;
        self.own_frozen(frozen);
        Ok(frozen)
    }

    fn prepare_freeze(&self, attached: &Attached, fresh: DiskId) -> Result<DiskFreeze, Failure> {
        let workspace = &attached.workspace;
        let (from, to) = (self.installation.disk_path(workspace.disk), self.installation.disk_path(fresh));
        let bytes = workspace.resources.disk_bytes();
        let source = DiskSource::Layer(from.clone());
        match self.installation.disks().freezing() {
            Freezing::Overlay => {
                self.installation.create_disk(&to, &source, bytes)?;
                self.show(&attached.state, &to)?;
                Ok(DiskFreeze::Switch { from, to, format: self.installation.disks().qemu_format() })
            }
            Freezing::Copy => {
                let disks = self.installation.shared_disks();
                let copy = disks.prepare_copy(&to, &from, bytes)?;
                Ok(DiskFreeze::Copy(copy.unwrap_or_else(|| Box::new(AtOnce { disks, to, source, bytes }))))
            }
        }
    }

    /// Holds the guest's processes or freezes its file system, as needed.
    async fn hold_guest(&self, attached: &Attached, what: What) -> Result<(), VmError> {
        let (machine, guest) = (attached.machine(), attached.machine().guest());
        let limit = super::snapshot::HOLD_LIMIT;
        match what {
            What::Disk => machine.during("holding its processes", limit, guest.freeze()).await,
            What::DiskAsItIs => Ok(()),
            What::Everything => machine.during("holding its processes", limit, guest.hold(true)).await,
            What::EverythingAsItIs => machine.during("holding its processes", limit, guest.hold(false)).await,
        }
    }

    /// Resumes the guest and corrects its clock.
    async fn resume_guest(&self, attached: &Attached, what: What) -> Result<(), VmError> {
        let (machine, guest) = (attached.machine(), attached.machine().guest());
        let limit = super::snapshot::HOLD_LIMIT;
        if what == What::Disk {
            machine.during("resuming", limit, guest.thaw()).await?;
        }
        let told = Instant::now();
        let clock = Configure { unix_nanos: Some(now_ns()), ..Configure::default() };
        match what {
            What::Disk | What::DiskAsItIs => {
                machine.during("resuming", limit, guest.configure(clock)).await?;
            }
            What::Everything | What::EverythingAsItIs => {
                let wake = Wake { identity: clock, ..Wake::default() };
                machine.during("resuming", limit, guest.wake(wake)).await?;
            }
        }
        set_again(machine, told).await
    }
}

/// A copy that is made while the machine is paused.
struct AtOnce {
    disks: Arc<dyn Disks>,
    to: PathBuf,
    source: DiskSource,
    bytes: u64,
}

impl DiskCopy for AtOnce {
    fn hold(&mut self) -> Result<(), DiskError> {
        self.disks.create(&self.to, &self.source, self.bytes)
    }

    fn finish(self: Box<Self>) -> Result<(), DiskError> {
        Ok(())
    }
}

/// Records that the workspace writes to `fresh` now and that its old disk is frozen.
pub(crate) fn commit_switch(tx: &Tx<'_>, workspace: &Workspace, fresh: DiskId) -> Result<DiskId, MetaError> {
    insert_disk(tx, fresh, Some(workspace.disk))?;
    tx.set_disk(workspace.id, fresh)?;
    tx.freeze_disk(workspace.disk)?;
    Ok(workspace.disk)
}

/// Records `fresh` as a frozen copy.
fn commit_copy(tx: &Tx<'_>, fresh: DiskId) -> Result<DiskId, MetaError> {
    tx.insert_disk(&Disk { id: fresh, parent: None, frozen: true, span: 1, workspace: None })?;
    Ok(fresh)
}
