//! Taking, listing and removing snapshots.

use std::time::Duration;

use agentiso_blocking::off_thread;
use agentiso_core::ports::host::MemoryWritten;
use agentiso_core::{Code, DiskId, Failure, MemoryId, SnapshotId, SnapshotName, WorkspaceId};
use agentiso_meta::{Memory, MetaError, Snapshot, Workspace};
use agentiso_vmm::link::Resync;
use agentiso_vmm::memory::{ImageWriter, MemoryImage, Written};
use agentiso_vmm::{SavedState, TakeMemory, TakenMemory};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::create::now;
use super::freeze::What;
use super::intent::Intent;
use super::undertaking::{Undertaking, internal};
use super::{Attached, SnapshotRequest, Snapshotted, Workspaces};

/// How long a guest may take to hold or resume its processes.
pub(crate) const HOLD_LIMIT: Duration = Duration::from_secs(30);

/// What is stored about a memory image.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct MemoryAbout {
    /// The key that a host must have to restore it.
    pub restore_key: String,
    /// The machine's hardware.
    pub hardware: agentiso_vmm::Hardware,
    /// Whether the agent's link was at a frame boundary.
    pub resync: Resync,
}

fn memory_written(written: &Written) -> MemoryWritten {
    MemoryWritten { pages: written.pages, bytes: written.bytes }
}

impl Workspaces {
    /// Takes a snapshot of a workspace, running or stopped. On failure there is none, and the workspace is not affected.
    pub async fn snapshot(&self, request: &SnapshotRequest) -> Result<Snapshotted, Failure> {
        let (workspace, lock) = self.lock(request.workspace).await?;
        self.require_free_snapshot_name(&workspace, &request.name)?;
        let _disks = self.use_disks()?;
        // A stopped workspace must not be started in the meantime.
        let _lock = lock.clone();
        let attached = match self.attach_locked(workspace.clone(), lock).await {
            Err(failure) if failure.code() == Code::WorkspaceNotRunning && !request.memory => None,
            other => Some(other?),
        };
        let (disk, memory) = (DiskId::from_uuid(Uuid::now_v7()), MemoryId::from_uuid(Uuid::now_v7()));
        let intent = Intent {
            disks: vec![disk],
            memories: if request.memory { vec![memory] } else { Vec::new() },
            switch: self.switch(&workspace, disk),
            ..Intent::default()
        };
        let undertaking = self.undertake("snapshot", Some(workspace.id), intent)?;
        match attached {
            None => {
                let frozen = self.freeze_stopped(&workspace, &undertaking, disk)?;
                self.conclude(request, &workspace, undertaking, frozen, None, Duration::ZERO)
            }
            Some(attached) => {
                let what = if request.memory { What::Everything } else { What::Disk };
                let take = match request.memory {
                    true => TakeMemory::Image(self.start_image(&attached, memory).await?),
                    false => TakeMemory::Nothing,
                };
                let (frozen, captured) =
                    self.freeze_running(&attached, &undertaking, what, disk, take).await?;
                let pause = captured.pause;
                let stored = match request.memory {
                    true => Some(self.finish_image(&attached, memory, captured).await?),
                    false => None,
                };
                self.conclude(request, &workspace, undertaking, frozen, stored, pause)
            }
        }
    }

    fn conclude(
        &self,
        request: &SnapshotRequest,
        workspace: &Workspace,
        undertaking: Undertaking<'_>,
        disk: DiskId,
        stored: Option<(Memory, MemoryImage, Written)>,
        pause: Duration,
    ) -> Result<Snapshotted, Failure> {
        let snapshot = Snapshot {
            id: SnapshotId::from_uuid(Uuid::now_v7()),
            workspace: workspace.id,
            name: request.name.clone(),
            kind: request.kind,
            description: request.description.clone(),
            parent: workspace.position,
            created: now(),
            disk,
            memory: stored.as_ref().map(|(memory, ..)| memory.id),
        };
        undertaking.finish(|tx| {
            if let Some((memory, image, _)) = &stored {
                tx.insert_memory(memory, &image.map.packs)?;
            }
            tx.insert_snapshot(&snapshot)?;
            tx.set_position(workspace.id, Some(snapshot.id))
        })?;
        Ok(Snapshotted { snapshot, pause, memory: stored.map(|(.., written)| memory_written(&written)) })
    }

    /// Starts a memory image. It stores only pages that the parent snapshot does not have.
    async fn start_image(&self, attached: &Attached, id: MemoryId) -> Result<ImageWriter, Failure> {
        let base = Self::base_name(&attached.state.record.memory);
        let bytes = attached.state.record.hardware.memory_bytes();
        let parent = self.parent_memory(&attached.workspace, &base)?;
        let files = self.memory();
        off_thread(move || {
            let parent = parent.map(|parent| files.open(parent)).transpose()?;
            ImageWriter::create(&files, id, bytes, parent)
        })
        .await
        .map_err(|error: std::io::Error| self.installation.io("write the memory of the snapshot", error))
    }

    /// Completes a memory image with the state that was saved.
    async fn finish_image(
        &self,
        attached: &Attached,
        id: MemoryId,
        captured: SavedState,
    ) -> Result<(Memory, MemoryImage, Written), Failure> {
        let base = Self::base_name(&attached.state.record.memory);
        let hardware = attached.state.record.hardware;
        let SavedState { device, memory, resync, .. } = captured;
        let TakenMemory::Image(copied) = memory else {
            return Err(internal("the memory of the machine was not taken"));
        };
        let (image, written) = off_thread(move || copied.finish(&device))
            .await
            .map_err(|error| self.installation.io("write the memory of the snapshot", error))?;
        let about = MemoryAbout { restore_key: attached.state.restore_key.clone(), hardware, resync };
        let about =
            serde_json::to_value(&about).map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let memory = Memory { id, base, created: now(), pages: written.pages, about };
        Ok((memory, image, written))
    }

    /// The memory of the parent snapshot, if it has the same base.
    fn parent_memory(&self, workspace: &Workspace, base: &str) -> Result<Option<MemoryId>, Failure> {
        let Some(position) = workspace.position else { return Ok(None) };
        let found = self.meta.read(|read| {
            let Some(memory) = read.snapshot(position)?.memory else { return Ok(None) };
            read.memory(memory).map(Some)
        })?;
        Ok(found.filter(|memory| memory.base == base).map(|memory| memory.id))
    }

    fn require_free_snapshot_name(&self, workspace: &Workspace, name: &SnapshotName) -> Result<(), Failure> {
        let taken = self.meta.read(|read| read.snapshots(workspace.id))?;
        if taken.iter().any(|snapshot| snapshot.name == *name) {
            return Err(MetaError::SnapshotExists { name: name.to_string() }.into());
        }
        Ok(())
    }

    /// A snapshot, which must belong to the workspace.
    pub(super) fn snapshot_of(&self, workspace: &Workspace, id: SnapshotId) -> Result<Snapshot, Failure> {
        let snapshot = self.meta.read(|read| read.snapshot(id))?;
        if snapshot.workspace == workspace.id {
            return Ok(snapshot);
        }
        Err(MetaError::SnapshotNotFound { asked: id.to_string(), nearest: None }.into())
    }

    /// Removes a snapshot. Fails if forks depend on it.
    pub async fn remove_snapshot(&self, workspace: WorkspaceId, id: SnapshotId) -> Result<(), Failure> {
        self.installation.make_room();
        let mut done = self.try_remove_snapshot(workspace, id).await;
        if self.installation.makes_room_after(&done) {
            done = self.try_remove_snapshot(workspace, id).await;
        }
        self.installation.keep_reserve();
        done
    }

    async fn try_remove_snapshot(&self, workspace: WorkspaceId, id: SnapshotId) -> Result<(), Failure> {
        let (workspace, _lock) = self.lock(workspace).await?;
        let snapshot = self.snapshot_of(&workspace, id)?;
        let forks = self.forks_needing(&snapshot)?;
        if !forks.is_empty() {
            let message = format!(
                "the snapshot {:?} is needed by its forks: {}",
                snapshot.name.as_str(),
                forks.join(", ")
            );
            return Err(Failure::new(Code::SnapshotInUse, message)
                .with_remedy("remove those forks first, or keep the snapshot"));
        }
        let undertaking = self.undertake("remove snapshot", Some(workspace.id), Intent::default())?;
        undertaking.settle(|tx| tx.remove_snapshot(snapshot.id))?;
        self.remove_unneeded()?;
        undertaking.finish(|_| Ok(()))
    }

    /// The names of other workspaces whose disks read through a snapshot's disk.
    pub(crate) fn forks_needing(&self, snapshot: &Snapshot) -> Result<Vec<String>, Failure> {
        let names = self.meta.read(|read| {
            let mut names = Vec::new();
            for workspace in read.workspaces()? {
                let needs = || {
                    Ok::<_, MetaError>(
                        read.chain(workspace.disk)?.iter().any(|disk| disk.id == snapshot.disk),
                    )
                };
                if workspace.id != snapshot.workspace && needs()? {
                    names.push(workspace.name.to_string());
                }
            }
            Ok(names)
        })?;
        Ok(names)
    }
}
