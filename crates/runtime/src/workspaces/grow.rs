//! Growing the disk of a workspace.

use agentiso_core::{Code, DiskId, Failure, Resources, WorkspaceId};
use agentiso_meta::{Snapshot, Workspace};

use super::{WorkspaceView, Workspaces};

impl Workspaces {
    /// Grows the disk of a running workspace and its file system. If the disk has that size already, the file system is
    /// grown again: an earlier attempt may have been interrupted.
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
        // Read first: once the disk has grown, nothing may fail.
        let view = self.info(id)?;
        // Record it first: a disk smaller than recorded does no harm, a larger one could not be copied.
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
        Ok(WorkspaceView { resources: after, ..view })
    }

    /// The size of a workspace at the time of a snapshot.
    pub fn size_then(&self, workspace: &Workspace, snapshot: &Snapshot) -> Result<Resources, Failure> {
        Ok(self.as_of(workspace, snapshot.disk)?.resources)
    }

    /// A workspace with the disk size of the given disk, which may be smaller.
    pub(super) fn as_of(&self, workspace: &Workspace, disk: DiskId) -> Result<Workspace, Failure> {
        let bytes = self.installation.disks().open(&self.installation.disk_path(disk))?.size();
        let disk_gb = u32::try_from(bytes >> 30).unwrap_or(u32::MAX);
        Ok(Workspace { resources: Resources { disk_gb, ..workspace.resources }, ..workspace.clone() })
    }
}
