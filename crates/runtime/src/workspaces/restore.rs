//! Taking a workspace back to a snapshot.
//!
//! The machine of the snapshot is started beside the present one, which stands still meanwhile; only when the new one
//! has answered does the old one end. Until then any failure leaves the workspace as it was.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_core::ports::DiskSource;
use agentiso_core::progress::Progress;
use agentiso_core::{Code, DiskId, Failure, SnapshotId, SnapshotName, WorkspaceId};
use agentiso_meta::{Memory, Snapshot, Workspace};
use agentiso_proto::{HookReport, Inherit};
use agentiso_vmm::template::restore_key;
use agentiso_vmm::{
    DeviceState, Fill, Hardware, Host, Launch, Machine, RestoreFrom, Standby, VmError, missing_device,
};
use serde_json::json;
use uuid::Uuid;

use super::base::insert_disk;
use super::create::tier_name;
use super::held::Held;
use super::intent::{BerthName, Intent};
use super::machine::MachineState;
use super::snapshot::MemoryAbout;
use super::undertaking::Undertaking;
use super::views::view_of;
use super::{Restored, Workspaces};
use crate::image_ops::blocking;
use crate::start::{Berth, BerthDisk, Identity, OnWake, Tier};

/// A machine that has just been restored or started in place of another.
pub(crate) struct Revived {
    pub machine: Machine,
    pub state: MachineState,
    pub tier: Tier,
    pub hooks: Vec<HookReport>,
}

/// Where a workspace is taken back to.
struct Destination<'a> {
    snapshot: &'a Snapshot,
    memory: Option<&'a (Memory, MemoryAbout)>,
}

/// A restore that the database knows, with the machine from before still there.
struct Beside<'a> {
    undertaking: Undertaking<'a>,
    revived: Option<Revived>,
    after: Workspace,
    away: Duration,
}

/// The machine from before. Whatever goes wrong, it is let go and not ended.
struct Present {
    state: MachineState,
    machine: Option<Machine>,
    held: Arc<Held>,
}

impl Present {
    fn new((state, machine): (MachineState, Machine), held: &Arc<Held>) -> Self {
        Self { state, machine: Some(machine), held: Arc::clone(held) }
    }

    async fn stand_still(&self) -> Result<(), VmError> {
        if let Some(machine) = &self.machine {
            machine.qmp().execute("stop", json!({})).await?;
        }
        Ok(())
    }

    /// If it cannot go on it has ended, and whoever looks next will see that.
    async fn go_on(self) {
        if let Some(machine) = &self.machine {
            let _ = machine.qmp().execute("cont", json!({})).await;
        }
    }

    async fn end(mut self, workspaces_dir: &Path) -> io::Result<()> {
        if let Some(machine) = self.machine.take() {
            machine.kill().await;
        }
        self.state.berth.remove(workspaces_dir)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        if let Some(machine) = self.machine.take() {
            self.held.leave(self.state.berth.workspace, machine);
        }
    }
}

impl Workspaces {
    /// Takes a workspace back to one of its snapshots: with its memory if the snapshot has it, unless `disk_only`.
    pub async fn restore(
        &self,
        id: WorkspaceId,
        snapshot: SnapshotId,
        disk_only: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Restored, Failure> {
        let (workspace, _lock) = self.lock(id).await?;
        let snapshot = self.snapshot_of(&workspace, snapshot)?;
        let memory = if disk_only { None } else { self.memory_to_restore(&snapshot)? };
        let disks = self.use_disks()?;
        let present = self.reach(&workspace).await?.map(|found| Present::new(found, &self.held));
        let to = Destination { snapshot: &snapshot, memory: memory.as_ref() };
        let then = self.as_of(&workspace, snapshot.disk)?;
        let beside = match self.restore_beside(&then, &to, present.as_ref(), progress).await {
            Ok(beside) => beside,
            Err(failure) => {
                if let Some(present) = present {
                    present.go_on().await;
                }
                return Err(failure);
            }
        };
        let Beside { undertaking, revived, after, away } = beside;
        let view = view_of(&after, revived.as_ref().map(|revived| &revived.state));
        let hooks = match revived {
            Some(Revived { machine, hooks, .. }) => {
                self.held.leave(workspace.id, machine);
                hooks
            }
            None => Vec::new(),
        };
        if let Some(present) = present {
            let dir = self.installation.paths.workspaces_dir();
            let ended = present.end(&dir).await;
            ended.map_err(|error| self.installation.io("remove a machine's directory", error))?;
        }
        drop(disks);
        self.remove_unneeded()?;
        undertaking.finish(|_| Ok(()))?;
        Ok(Restored { workspace: view, memory: memory.is_some(), away, hooks })
    }

    /// Starts the machine of a snapshot and makes it the workspace's.
    async fn restore_beside(
        &self,
        workspace: &Workspace,
        to: &Destination<'_>,
        present: Option<&Present>,
        progress: &Arc<dyn Progress>,
    ) -> Result<Beside<'_>, Failure> {
        let disk = DiskId::from_uuid(Uuid::now_v7());
        let berth = BerthName::new(workspace.id);
        let intent = Intent { disks: vec![disk], berths: vec![berth], ..Intent::default() };
        let undertaking = self.undertake("restore", Some(workspace.id), intent)?;
        let began = Instant::now();
        let revived = self.revive(workspace, to, (disk, berth), present, progress).await?;
        let away = began.elapsed();
        let parent = self.parent_of(disk)?;
        let value = revived.as_ref().map(|revived| revived.state.to_value()).transpose()?;
        let after = undertaking.settle(|tx| {
            insert_disk(tx, disk, parent)?;
            tx.set_disk(workspace.id, disk)?;
            tx.set_disk_gb(workspace.id, workspace.resources.disk_gb)?;
            tx.set_position(workspace.id, Some(to.snapshot.id))?;
            match (&value, &revived) {
                (Some(value), Some(revived)) => {
                    tx.set_running(workspace.id, value)?;
                    // A memory has the size it was taken with, whatever the workspace was changed to since.
                    let hardware = revived.state.record.hardware;
                    tx.set_size(workspace.id, hardware.vcpus, hardware.memory_mb)?;
                    tx.set_tier(workspace.id, &tier_name(revived.tier))?;
                }
                _ => tx.set_stopped(workspace.id, None)?,
            }
            tx.workspace(workspace.id)
        })?;
        Ok(Beside { undertaking, revived, after, away })
    }

    /// Starts a machine at the destination. `None` if there is nothing to run: no memory, and no machine before.
    async fn revive(
        &self,
        workspace: &Workspace,
        to: &Destination<'_>,
        (disk, berth_name): (DiskId, BerthName),
        present: Option<&Present>,
        progress: &Arc<dyn Progress>,
    ) -> Result<Option<Revived>, Failure> {
        let host = self.installation.host()?;
        let source = DiskSource::Layer(self.installation.disk_path(to.snapshot.disk));
        let bytes = workspace.resources.disk_bytes();
        self.installation.create_disk(&self.installation.disk_path(disk), &source, bytes)?;
        let identity = Identity { id: workspace.id, hostname: workspace.name.to_string() };
        if let Some((memory, about)) = to.memory {
            let berth = self.berth(berth_name, disk, BerthDisk::Existing, &host)?;
            let from = self.state_of(to.snapshot, memory, about).await?;
            let standby = self.standby(&host, &berth, &memory.base, about.hardware)?;
            if let Some(present) = present {
                present.stand_still().await?;
            }
            let restored = standby.restore(from).await;
            let machine = restored.map_err(|error| not_restored(&to.snapshot.name, error))?;
            let hooks = identity.give_to(&machine, OnWake::Restore).await?;
            let state = self.lasting(&machine, berth_name, about.restore_key.clone())?;
            return Ok(Some(Revived { machine, state, tier: Tier::Snapshot, hooks }));
        }
        let Some(present) = present else { return Ok(None) };
        present.stand_still().await?;
        self.revive_from_disk(workspace, &identity, berth_name, disk, OnWake::RestoreDisk, progress)
            .await
            .map(Some)
    }

    /// Starts a machine on a disk that somebody has written to.
    pub(crate) async fn revive_from_disk(
        &self,
        workspace: &Workspace,
        identity: &Identity,
        berth_name: BerthName,
        disk: DiskId,
        on: OnWake,
        progress: &Arc<dyn Progress>,
    ) -> Result<Revived, Failure> {
        let image = self.installation.images()?.get(&workspace.image)?;
        let with = self.installation.ingredients_but_disk(&image, &workspace.resources, progress).await?;
        let berth = self.berth(berth_name, disk, BerthDisk::Existing, &with.host)?;
        let started = self.installation.start_in(&with, &berth, false, progress).await?;
        let hooks = identity.give_to(&started.machine, on).await?;
        if let Some(bytes) = started.disk_bytes {
            started.machine.announce_disk_size(bytes).await?;
        }
        let state = self.lasting(&started.machine, berth_name, with.restore_key())?;
        Ok(Revived { machine: started.machine, state, tier: started.tier, hooks })
    }

    /// The memory of a snapshot, if it has one; refused if this host cannot restore it.
    pub(crate) fn memory_to_restore(
        &self,
        snapshot: &Snapshot,
    ) -> Result<Option<(Memory, MemoryAbout)>, Failure> {
        let Some(id) = snapshot.memory else { return Ok(None) };
        let memory = self.meta.read(|read| read.memory(id))?;
        let about: MemoryAbout = serde_json::from_value(memory.about.clone()).map_err(|error| {
            Failure::new(
                Code::DataDamaged,
                format!("what is stored about a snapshot's memory makes no sense: {error}"),
            )
        })?;
        let here = restore_key(&self.installation.host()?, &about.hardware);
        if here != about.restore_key {
            let message = format!(
                "the memory of the snapshot {:?} was taken with another QEMU or on another processor",
                snapshot.name.as_str()
            );
            return Err(Failure::new(Code::SnapshotIncompatible, message)
                .with_remedy("restore or fork its disk alone: --disk-only"));
        }
        if let Some(missing) = missing_device(&about.hardware) {
            let Hardware { accel, link, .. } = about.hardware;
            let message = format!(
                "the memory of the snapshot {:?} is of a machine with {accel} and {link}, and {missing}",
                snapshot.name.as_str()
            );
            return Err(Failure::new(Code::SnapshotIncompatible, message).with_remedy(
                "restore or fork its disk alone: --disk-only; 'agentiso check' says how to get the device",
            ));
        }
        Ok(Some((memory, about)))
    }

    /// A QEMU that waits for a state on a base.
    pub(crate) fn standby(
        &self,
        host: &Host,
        berth: &Berth,
        base: &str,
        hardware: Hardware,
    ) -> Result<Standby, Failure> {
        let launch = Launch {
            dir: &berth.dir,
            hardware,
            user: berth.user.clone(),
            disk: self.installation.hand_over(berth)?,
            memory: self.base_memory(base),
            ephemeral: false,
            spare_port: false,
        };
        Ok(Standby::spawn(host, &launch)?)
    }

    /// The state in a memory image. What is wrong with its device state is found here, the rest when it is restored.
    pub(crate) async fn state_of(
        &self,
        snapshot: &Snapshot,
        memory: &Memory,
        about: &MemoryAbout,
    ) -> Result<RestoreFrom, Failure> {
        let (files, id, resync) = (self.memory(), memory.id, about.resync);
        let opened = blocking(move || {
            let image = files.open(id)?;
            let device = image.device()?;
            Ok((files, image, device))
        });
        let (files, image, device) =
            opened.await?.map_err(|error: io::Error| damaged(&snapshot.name, &error.to_string()))?;
        if !image.is_verifiable() {
            tracing::warn!(
                snapshot = snapshot.name.as_str(),
                "the memory of this snapshot was written by an earlier version, without checksums: not verified"
            );
        }
        Ok(RestoreFrom {
            device: DeviceState::Bytes(Arc::new(device)),
            fill: Fill::Image(files, Arc::new(image)),
            inherit: Inherit::Held,
            resync,
        })
    }
}

/// Why a stored state could not be restored. A QEMU that refuses it, pages that are missing and checksums that do not
/// match all mean that the files were damaged.
pub(super) fn not_restored(snapshot: &SnapshotName, error: VmError) -> Failure {
    use std::io::ErrorKind;
    match error {
        VmError::BadTemplate { reason, .. } => damaged(snapshot, reason.trim_end()),
        VmError::Io { cause, .. }
            if matches!(
                cause.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::NotFound | ErrorKind::InvalidData
            ) =>
        {
            damaged(snapshot, &cause.to_string())
        }
        other => other.into(),
    }
}

fn damaged(snapshot: &SnapshotName, reason: &str) -> Failure {
    let message = format!("the memory of the snapshot {:?} is damaged: {reason}", snapshot.as_str());
    Failure::new(Code::DataDamaged, message)
        .with_remedy("restore or fork its disk alone: --disk-only; or use another snapshot")
}
