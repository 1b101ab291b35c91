//! Freezing what a workspace holds at one instant.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use agentiso_core::ports::{DiskCopy, DiskError, DiskSource, Disks, Freezing};
use agentiso_core::{DiskId, Failure};
use agentiso_meta::{Disk, MetaError, Tx, Workspace};
use agentiso_proto::{Configure, Wake};
use agentiso_vmm::{Capture, Captured, DiskFreeze, Prepared, TakeMemory, VmError};

use super::base::insert_disk;
use super::intent::Switch;
use super::undertaking::Undertaking;
use super::{Attached, Workspaces};
use crate::start::{now_ns, set_again};

/// What to freeze of a running workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum What {
    /// Its disk, with everything the guest has written to it.
    Disk,
    /// Its disk between any two writes.
    DiskAsItIs,
    /// Its memory, and its disk with everything the guest has written to it.
    Everything,
    /// Its memory and its disk as the two are: what is not on the disk yet is in the memory.
    EverythingAsItIs,
}

impl Workspaces {
    /// The switch of disks that freezing a workspace brings with it, if it brings one.
    pub(crate) fn switch(&self, workspace: &Workspace, fresh: DiskId) -> Option<Switch> {
        let switch = Switch { workspace: workspace.id, from: workspace.disk, to: fresh };
        (self.installation.disks().freezing() == Freezing::Overlay).then_some(switch)
    }

    /// Freezes a running workspace. `fresh` is the id of the disk that is made for it. Returns the frozen disk, which
    /// the database knows from then on, and what was taken.
    pub(crate) async fn freeze_running(
        &self,
        attached: &Attached,
        undertaking: &Undertaking<'_>,
        what: What,
        fresh: DiskId,
        memory: TakeMemory,
    ) -> Result<(DiskId, Captured), Failure> {
        let prepared = self.prepare_capture(attached, fresh, memory).await?;
        self.freeze_prepared(attached, undertaking, what, fresh, prepared).await
    }

    /// Does what can be done before the guest is brought to rest.
    pub(crate) async fn prepare_capture(
        &self,
        attached: &Attached,
        fresh: DiskId,
        memory: TakeMemory,
    ) -> Result<Prepared, Failure> {
        let disk = self.prepare_freeze(attached, fresh)?;
        let capture = Capture { memory, disk: Some(disk) };
        Ok(attached.machine().prepare(capture).await?)
    }

    /// Freezes a running workspace for which everything is prepared.
    pub(crate) async fn freeze_prepared(
        &self,
        attached: &Attached,
        undertaking: &Undertaking<'_>,
        what: What,
        fresh: DiskId,
        prepared: Prepared,
    ) -> Result<(DiskId, Captured), Failure> {
        let workspace = &attached.workspace;
        if let Err(error) = self.calm(attached, what).await {
            attached.machine().give_up(prepared).await;
            return Err(error.into());
        }
        let captured = attached.machine().take(prepared).await;
        let calmed = self.uncalm(attached, what).await;
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
        calmed?;
        Ok((frozen, captured))
    }

    /// Freezes the disk of a workspace that does not run.
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

    /// Brings the guest to rest as far as what is taken needs it.
    async fn calm(&self, attached: &Attached, what: What) -> Result<(), VmError> {
        let (machine, guest) = (attached.machine(), attached.machine().guest());
        let limit = super::snapshot::CALM_LIMIT;
        match what {
            What::Disk => machine.during("coming to rest", limit, guest.freeze()).await,
            What::DiskAsItIs => Ok(()),
            What::Everything => machine.during("coming to rest", limit, guest.hold(true)).await,
            What::EverythingAsItIs => machine.during("coming to rest", limit, guest.hold(false)).await,
        }
    }

    /// Lets the guest go on, with the clock it would have had without the pause.
    async fn uncalm(&self, attached: &Attached, what: What) -> Result<(), VmError> {
        let (machine, guest) = (attached.machine(), attached.machine().guest());
        let limit = super::snapshot::CALM_LIMIT;
        if what == What::Disk {
            machine.during("going on", limit, guest.thaw()).await?;
        }
        let told = Instant::now();
        let clock = Configure { unix_nanos: Some(now_ns()), ..Configure::default() };
        match what {
            What::Disk | What::DiskAsItIs => {
                machine.during("going on", limit, guest.configure(clock)).await?;
            }
            What::Everything | What::EverythingAsItIs => {
                let wake = Wake { identity: clock, ..Wake::default() };
                machine.during("going on", limit, guest.wake(wake)).await?;
            }
        }
        set_again(machine, told).await
    }
}

/// A copy that is made while the machine stands still.
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

/// The workspace writes to `fresh` from now on; the disk it had is frozen.
pub(crate) fn commit_switch(tx: &Tx<'_>, workspace: &Workspace, fresh: DiskId) -> Result<DiskId, MetaError> {
    insert_disk(tx, fresh, Some(workspace.disk))?;
    tx.set_disk(workspace.id, fresh)?;
    tx.freeze_disk(workspace.disk)?;
    Ok(workspace.disk)
}

/// `fresh` is a copy that nobody writes to.
fn commit_copy(tx: &Tx<'_>, fresh: DiskId) -> Result<DiskId, MetaError> {
    tx.insert_disk(&Disk { id: fresh, parent: None, frozen: true, span: 1, workspace: None })?;
    Ok(fresh)
}
