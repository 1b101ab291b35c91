//! Giving a workspace a larger disk.

use agentiso_core::{Code, DiskId, Failure, Resources, WorkspaceId};
use agentiso_meta::{Snapshot, Workspace};

use super::{WorkspaceView, Workspaces};

impl Workspaces {
    /// Grows the disk of a running workspace and its file system with it. A disk of that size already is looked after
    /// once more: an earlier attempt may not have come to its end.
    pub async fn grow(&self, id: WorkspaceId, disk_gb: u32) -> Result<WorkspaceView, Failure> {
        let attached = self.attach(id).await?;
        let workspace = attached.workspace.clone();
        let before = workspace.resources;
        let after = Resources { disk_gb, ..before };
        after.check(&self.installation.config.limits)?;
        if disk_gb < before.disk_gb {
            let message =
                format!("the disk of {} has {} GiB and cannot shrink", workspace.name, before.disk_gb);
            return Err(Failure::new(Code::InvalidArgument, message)
                .with_remedy("make a smaller workspace and copy over what it needs"));
        }
        // Noted first: a disk smaller than noted does no harm, a larger one could not be copied.
        self.meta.write(|tx| tx.set_disk_gb(workspace.id, disk_gb))?;
        self.write_records();
        let path = self.installation.disk_path(workspace.disk);
        if let Err(error) = self.installation.disks().let_grow(&path, after.disk_bytes()) {
            self.meta.write(|tx| tx.set_disk_gb(workspace.id, before.disk_gb))?;
            return Err(error.into());
        }
        let grown = attached.machine().grow_disk(after.disk_bytes(), disk_gb > before.disk_gb).await;
        grown.map_err(|error| {
            Failure::from(error).with_remedy(format!("try again: agentiso grow {} {disk_gb}", workspace.name))
        })?;
        drop(attached);
        self.info(workspace.id)
    }

    /// The size a workspace had when a snapshot of it was taken.
    pub fn size_then(&self, workspace: &Workspace, snapshot: &Snapshot) -> Result<Resources, Failure> {
        Ok(self.as_of(workspace, snapshot.disk)?.resources)
    }

    /// A workspace as it was when its disk was the given one, which may have been smaller.
    pub(super) fn as_of(&self, workspace: &Workspace, disk: DiskId) -> Result<Workspace, Failure> {
        let bytes = self.installation.disks().open(&self.installation.disk_path(disk))?.size();
        let disk_gb = u32::try_from(bytes >> 30).unwrap_or(u32::MAX);
        Ok(Workspace { resources: Resources { disk_gb, ..workspace.resources }, ..workspace.clone() })
    }
}
