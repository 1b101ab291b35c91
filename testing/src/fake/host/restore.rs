//! Restoring a workspace to a snapshot.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentiso_core::ports::host::Restored;
use agentiso_core::{Failure, SnapshotId, WorkspaceId};
use serde_json::json;

use super::state::{FakeHost, StoredDisk, insert_disk, new_disk};
use crate::fake::machine::locked;
use crate::fake::memory::Memory;

impl FakeHost {
    pub(super) async fn restore_workspace(
        &self,
        id: WorkspaceId,
        snapshot: SnapshotId,
        disk_only: bool,
    ) -> Result<Restored, Failure> {
        let _turn = self.turn(id).await;
        let workspace = self.workspace(id)?;
        let snapshot = self.snapshot_of(id, snapshot)?;
        let memory = snapshot.memory.filter(|_| !disk_only);
        let memory = memory.and_then(|memory| locked(&self.inner.memories).get(&memory).cloned());
        let present = self.reach(&workspace)?;
        let gb = self.disk(snapshot.disk)?.gb;
        let files = Arc::new(Mutex::new(self.files(snapshot.disk)?));
        let fresh = Memory::of_host(workspace.name.as_str());
        let revived = match (&memory, &present) {
            (Some(stored), _) => {
                let mut memory = stored.memory.clone();
                memory.hostname.clone_from(&fresh.hostname);
                Some((self.machine(Arc::clone(&files), memory), "snapshot"))
            }
            (None, Some(_)) => Some((self.machine(Arc::clone(&files), fresh), "template")),
            (None, None) => None,
        };
        let disk = new_disk();
        let recorded = self.inner.meta.write(|tx| {
            insert_disk(tx, disk, Some(snapshot.disk))?;
            tx.set_disk(id, disk)?;
            tx.set_disk_gb(id, gb)?;
            tx.set_position(id, Some(snapshot.id))?;
            match &revived {
                Some((machine, tier)) => {
                    tx.set_running(id, &json!({ "pid": machine.pid }))?;
                    tx.set_tier(id, tier)
                }
                None => tx.set_stopped(id, None),
            }?;
            if let Some(stored) = &memory {
                tx.set_size(id, stored.resources.vcpus, stored.resources.memory_mb)?;
            }
            tx.workspace(id)
        });
        let workspace = match recorded {
            Ok(workspace) => workspace,
            Err(error) => {
                if let Some((machine, _)) = revived {
                    machine.end("it was not recorded");
                }
                return Err(error.into());
            }
        };
        locked(&self.inner.disks).insert(disk, StoredDisk { files, gb });
        if let Some(present) = present {
            present.end("it was replaced by a restored one");
        }
        match revived {
            Some((machine, _)) => locked(&self.inner.machines).insert(id, machine),
            None => locked(&self.inner.machines).remove(&id),
        };
        self.remove_unneeded()?;
        Ok(Restored {
            workspace: self.view_of(&workspace, None),
            memory: memory.is_some(),
            away: Duration::from_millis(1),
            hooks: Vec::new(),
        })
    }
}
