//! Restoring a workspace to a snapshot.
//!
//! The machine of the snapshot is started beside the current one, which is paused. The current one is killed only after
//! the new one has answered and is recorded. If anything fails before that, the current one is resumed and the workspace
//! does not change.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_blocking::off_thread;
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
use super::connections::Connections;
use super::create::tier_name;
use super::intent::{Intent, MachineDirName};
use super::machine::MachineState;
use super::snapshot::MemoryAbout;
use super::undertaking::Undertaking;
use super::views::view_of;
use super::{Restored, Workspaces};
use crate::network::Wired;
use crate::start::{Identity, OnWake, PendingStart, StartDisk, Tier};

/// A machine that was restored or started for a restore or a fork.
pub(crate) struct Revived {
    pub machine: Machine,
    pub state: MachineState,
    pub tier: Tier,
    pub hooks: Vec<HookReport>,
    /// Its place on the network, if it was attached already.
    pub wired: Option<Wired>,
}

/// What a workspace is restored to.
struct Destination<'a> {
    snapshot: &'a Snapshot,
    memory: Option<&'a (Memory, MemoryAbout)>,
}

/// A recorded restore, before the old machine is killed.
struct Beside<'a> {
    undertaking: Undertaking<'a>,
    revived: Option<Revived>,
    after: Workspace,
    away: Duration,
}

/// The old machine. Dropping it disconnects from it and does not kill it.
struct Present {
    state: MachineState,
    machine: Option<Machine>,
    connections: Arc<Connections>,
}

impl Present {
    fn new((state, machine): (MachineState, Machine), connections: &Arc<Connections>) -> Self {
        Self { state, machine: Some(machine), connections: Arc::clone(connections) }
    }

    async fn stand_still(&self) -> Result<(), VmError> {
        if let Some(machine) = &self.machine {
            machine.qmp().execute("stop", json!({})).await?;
        }
        Ok(())
    }

    /// If this fails the machine has ended, which the next operation notices.
    async fn go_on(self) {
        if let Some(machine) = &self.machine {
            let _ = machine.qmp().execute("cont", json!({})).await;
        }
    }

    async fn end(mut self, workspaces_dir: &Path) -> io::Result<()> {
        if let Some(machine) = self.machine.take() {
            machine.kill().await;
        }
        self.state.dir.remove(workspaces_dir)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        if let Some(machine) = self.machine.take() {
            self.connections.leave(self.state.dir.workspace, machine);
        }
    }
}

impl Workspaces {
    /// Restores a workspace to one of its snapshots: with its memory if the snapshot has it, unless `disk_only`.
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
        let present = self.reach(&workspace).await?.map(|found| Present::new(found, &self.connections));
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
            Some(Revived { machine, hooks, state, .. }) => {
                self.wire_restored(&workspace, &machine, state).await;
                self.connections.leave(workspace.id, machine);
                hooks
            }
            None => {
                if workspace.network.address.is_some() {
                    self.net.detach(workspace.id).await?;
                }
                Vec::new()
            }
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

    /// Starts the machine of a snapshot and records it as the workspace's.
    async fn restore_beside(
        &self,
        workspace: &Workspace,
        to: &Destination<'_>,
        present: Option<&Present>,
        progress: &Arc<dyn Progress>,
    ) -> Result<Beside<'_>, Failure> {
        let disk = DiskId::from_uuid(Uuid::now_v7());
        let dir = MachineDirName::new(workspace.id);
        let intent = Intent { disks: vec![disk], machine_dirs: vec![dir], ..Intent::default() };
        let undertaking = self.undertake("restore", Some(workspace.id), intent)?;
        let began = Instant::now();
        let revived = self.revive(workspace, to, (disk, dir), present, progress).await?;
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
                    // A memory image has the size of the machine it was taken from.
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

    /// Starts a machine at the destination. `None` if there is nothing to run: no memory, and the workspace was stopped.
    async fn revive(
        &self,
        workspace: &Workspace,
        to: &Destination<'_>,
        (disk, dir_name): (DiskId, MachineDirName),
        present: Option<&Present>,
        progress: &Arc<dyn Progress>,
    ) -> Result<Option<Revived>, Failure> {
        let host = self.installation.host()?;
        let source = DiskSource::Layer(self.installation.disk_path(to.snapshot.disk));
        let bytes = workspace.resources.disk_bytes();
        self.installation.create_disk(&self.installation.disk_path(disk), &source, bytes)?;
        let identity = Identity { id: workspace.id, hostname: workspace.name.to_string() };
        if let Some((memory, about)) = to.memory {
            let pending = self.pending_start(dir_name, disk, StartDisk::Existing, &host)?;
            let from = self.state_of(to.snapshot, memory, about).await?;
            let standby = self.standby(&host, &pending, &memory.base, about.hardware)?;
            if let Some(present) = present {
                present.stand_still().await?;
            }
            let restored = standby.restore(from).await;
            let machine = restored.map_err(|error| not_restored(&to.snapshot.name, error))?;
            let hooks = identity.give_to(&machine, OnWake::Restore).await?;
            let state = self.lasting(&machine, dir_name, about.restore_key.clone())?;
            return Ok(Some(Revived { machine, state, tier: Tier::Snapshot, hooks, wired: None }));
        }
        let Some(present) = present else { return Ok(None) };
        present.stand_still().await?;
        self.revive_from_disk(workspace, &identity, dir_name, disk, OnWake::RestoreDisk, progress)
            .await
            .map(Some)
    }

    /// Starts a machine on an existing disk.
    pub(crate) async fn revive_from_disk(
        &self,
        workspace: &Workspace,
        identity: &Identity,
        dir_name: MachineDirName,
        disk: DiskId,
        on: OnWake,
        progress: &Arc<dyn Progress>,
    ) -> Result<Revived, Failure> {
        let image = self.installation.image(&workspace.image)?;
        let with = self.installation.ingredients_but_disk(&image, &workspace.resources, progress).await?;
        let pending = self.pending_start(dir_name, disk, StartDisk::Existing, &with.host)?;
        let started = self.installation.start_in(&with, &pending, false, progress).await?;
        let hooks = identity.give_to(&started.machine, on).await?;
        if let Some(bytes) = started.disk_bytes {
            started.machine.announce_disk_size(bytes).await?;
        }
        let state = self.lasting(&started.machine, dir_name, with.restore_key())?;
        Ok(Revived { machine: started.machine, state, tier: started.tier, hooks, wired: None })
    }

    /// The memory of a snapshot, if it has one. Fails if this host cannot restore it.
    pub(crate) fn memory_to_restore(
        &self,
        snapshot: &Snapshot,
    ) -> Result<Option<(Memory, MemoryAbout)>, Failure> {
        let Some(id) = snapshot.memory else { return Ok(None) };
        let memory = self.meta.read(|read| read.memory(id))?;
        let about: MemoryAbout = serde_json::from_value(memory.about.clone()).map_err(|error| {
            Failure::new(
                Code::DataDamaged,
                format!("the stored record of a snapshot's memory cannot be understood: {error}"),
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

    /// Starts a QEMU that waits for a state to restore.
    pub(crate) fn standby(
        &self,
        host: &Host,
        pending: &PendingStart,
        base: &str,
        hardware: Hardware,
    ) -> Result<Standby, Failure> {
        let launch = Launch {
            dir: &pending.dir,
            hardware,
            user: pending.user.clone(),
            disk: self.installation.hand_over(pending)?,
            memory: self.base_memory(base),
            ephemeral: false,
            spare_port: false,
        };
        Ok(Standby::spawn(host, &launch)?)
    }

    /// Opens the state in a memory image. Damage of the device state is found here, damage of pages by the restore.
    pub(crate) async fn state_of(
        &self,
        snapshot: &Snapshot,
        memory: &Memory,
        about: &MemoryAbout,
    ) -> Result<RestoreFrom, Failure> {
        let (files, id, resync) = (self.memory(), memory.id, about.resync);
        let opened = off_thread(move || {
            let image = files.open(id)?;
            let device = image.device()?;
            Ok((files, image, device))
        });
        let (files, image, device) =
            opened.await.map_err(|error: io::Error| damaged(&snapshot.name, &error.to_string()))?;
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

/// Why a stored state could not be restored. A QEMU that rejects it, missing pages and wrong checksums all mean that the
/// files are damaged.
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
