//! Taking and removing snapshots.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentiso_core::ports::host::{MemoryWritten, SnapshotRequest, Snapshotted};
use agentiso_core::{Code, DiskId, Failure, MemoryId, Resources, SnapshotId, WorkspaceId};
use agentiso_meta::{Memory as MemoryRow, MetaError, Snapshot, Tx, Workspace};
use serde_json::json;
use uuid::Uuid;

use super::state::{FakeHost, StoredDisk, StoredMemory, insert_disk, new_disk, not_running, now};
use crate::fake::machine::locked;

impl FakeHost {
    pub(super) async fn take_snapshot(&self, request: &SnapshotRequest) -> Result<Snapshotted, Failure> {
        let _turn = self.turn(request.workspace).await;
        let workspace = self.workspace(request.workspace)?;
        let taken = self.inner.meta.read(|read| read.snapshots(workspace.id))?;
        if taken.iter().any(|snapshot| snapshot.name == request.name) {
            return Err(MetaError::SnapshotExists { name: request.name.to_string() }.into());
        }
        let machine = self.reach(&workspace)?;
        let memory = match (&machine, request.memory) {
            (Some(machine), true) => Some(machine.copy_memory()),
            (None, true) => return Err(not_running(&workspace)),
            (_, false) => None,
        };
        let row = memory.as_ref().map(|_| MemoryRow {
            id: MemoryId::from_uuid(Uuid::now_v7()),
            base: "fake".to_owned(),
            created: now(),
            pages: 1,
            about: json!({}),
        });
        let snapshot = Snapshot {
            id: SnapshotId::from_uuid(Uuid::now_v7()),
            workspace: workspace.id,
            name: request.name.clone(),
            kind: request.kind,
            description: request.description.clone(),
            parent: workspace.position,
            created: now(),
            disk: workspace.disk,
            memory: row.as_ref().map(|row| row.id),
        };
        let fresh = new_disk();
        self.inner.meta.write(|tx| {
            freeze(tx, &workspace, fresh)?;
            if let Some(row) = &row {
                tx.insert_memory(row, &[row.id])?;
            }
            tx.insert_snapshot(&snapshot)?;
            tx.set_position(workspace.id, Some(snapshot.id))
        })?;
        self.freeze_files(&workspace, fresh)?;
        if let (Some(id), Some(memory)) = (snapshot.memory, memory) {
            let stored = StoredMemory { memory, resources: workspace.resources };
            locked(&self.inner.memories).insert(id, stored);
        }
        let written = snapshot.memory.map(|_| MemoryWritten { pages: 1, bytes: 4096 });
        let pause = if machine.is_some() { Duration::from_millis(1) } else { Duration::ZERO };
        Ok(Snapshotted { snapshot, pause, memory: written })
    }

    /// The workspace writes to a new disk from now on; its old one stays as it is.
    pub(super) fn freeze_files(&self, workspace: &Workspace, fresh: DiskId) -> Result<(), Failure> {
        let disk = self.disk(workspace.disk)?;
        let frozen = locked(&disk.files).clone();
        let mut disks = locked(&self.inner.disks);
        disks.insert(workspace.disk, StoredDisk { files: Arc::new(Mutex::new(frozen)), gb: disk.gb });
        disks.insert(fresh, disk);
        Ok(())
    }

    pub(super) async fn delete_snapshot(
        &self,
        workspace: WorkspaceId,
        id: SnapshotId,
    ) -> Result<(), Failure> {
        let _turn = self.turn(workspace).await;
        let snapshot = self.snapshot_of(workspace, id)?;
        let forks = self.forks_needing(&snapshot)?;
        if !forks.is_empty() {
            let message = format!(
                "the snapshot {:?} is needed by its forks: {}",
                snapshot.name.as_str(),
                forks.join(", ")
            );
            return Err(Failure::new(Code::SnapshotInUse, message).with_remedy("remove those forks first"));
        }
        self.inner.meta.write(|tx| tx.remove_snapshot(id))?;
        self.remove_unneeded()
    }

    /// A snapshot, which must be one of the workspace's.
    pub(super) fn snapshot_of(&self, workspace: WorkspaceId, id: SnapshotId) -> Result<Snapshot, Failure> {
        let snapshot = self.inner.meta.read(|read| {
            read.workspace(workspace)?;
            read.snapshot(id)
        })?;
        if snapshot.workspace == workspace {
            return Ok(snapshot);
        }
        Err(MetaError::SnapshotNotFound { asked: id.to_string(), nearest: None }.into())
    }

    pub(super) fn size_then(&self, workspace: &Workspace, snapshot: &Snapshot) -> Result<Resources, Failure> {
        Ok(Resources { disk_gb: self.disk(snapshot.disk)?.gb, ..workspace.resources })
    }

    /// The names of workspaces, other than its own, whose disks read through a snapshot's.
    pub(super) fn forks_needing(&self, snapshot: &Snapshot) -> Result<Vec<String>, Failure> {
        let names = self.inner.meta.read(|read| {
            let mut names = Vec::new();
            for workspace in read.workspaces()? {
                let needs = read.chain(workspace.disk)?.iter().any(|disk| disk.id == snapshot.disk);
                if workspace.id != snapshot.workspace && needs {
                    names.push(workspace.name.to_string());
                }
            }
            Ok(names)
        })?;
        Ok(names)
    }
}

/// Records that a workspace writes to a new disk that stands on its old one.
pub(super) fn freeze(tx: &Tx<'_>, workspace: &Workspace, fresh: DiskId) -> Result<(), MetaError> {
    tx.freeze_disk(workspace.disk)?;
    insert_disk(tx, fresh, Some(workspace.disk))?;
    tx.set_disk(workspace.id, fresh)
}
