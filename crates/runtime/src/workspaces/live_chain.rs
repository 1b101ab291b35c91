//! Switching running machines to disks that were rewritten.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_core::{DiskId, Failure, WorkspaceId};
use agentiso_meta::Workspace;
use agentiso_vmm::TakeMemory;
use uuid::Uuid;

use super::Workspaces;
use super::freeze::What;
use super::intent::Intent;
use super::lock::WorkspaceLock;
use super::machine::MachineState;

/// The suffix that `/proc/PID/fd` shows for a deleted file.
const DELETED: &str = " (deleted)";

impl Workspaces {
    /// Switches machines that have replaced disks open to the new ones. Returns how many were switched, and how many were
    /// left because another operation has them locked.
    pub(super) async fn refresh_machines(&self) -> Result<(u32, u32), Failure> {
        let (mut moved, mut left) = (0, 0);
        for workspace in self.meta.read(|read| read.workspaces())? {
            if !self.reads_old_disks(&workspace)? {
                continue;
            }
            match self.lock_if_free(workspace.id).await? {
                None => left += 1,
                Some((workspace, lock)) => moved += u32::from(self.show_and_move(workspace, lock).await?),
            }
        }
        Ok((moved, left))
    }

    /// Updates the disks that a machine can see, and switches it if it reads old ones.
    async fn show_and_move(&self, workspace: Workspace, lock: WorkspaceLock) -> Result<bool, Failure> {
        let _disks = self.use_disks()?;
        let Some(state) = self.living_machine(&workspace)? else { return Ok(false) };
        let reads_old = self.has_old_open(&state)?;
        self.show_current(&workspace, &state)?;
        if reads_old {
            self.refresh(workspace, lock).await?;
        }
        Ok(reads_old)
    }

    async fn refresh(&self, workspace: Workspace, lock: WorkspaceLock) -> Result<(), Failure> {
        let disks = self.installation.disks();
        let Some(below) = disks.parent(&self.installation.disk_path(workspace.disk))? else { return Ok(()) };
        let attached = self.attach_locked(workspace, lock).await?;
        Ok(attached.machine().reopen_below(below.path(), disks.qemu_format()).await?)
    }

    /// Freezes the disk of a workspace, so that the disks below it can be merged into it. Returns false if another
    /// operation has the workspace locked.
    pub(super) async fn freeze_for_merging(&self, id: WorkspaceId) -> Result<bool, Failure> {
        let Some((workspace, lock)) = self.lock_if_free(id).await? else { return Ok(false) };
        let _disks = self.use_disks()?;
        let fresh = DiskId::from_uuid(Uuid::now_v7());
        let intent =
            Intent { disks: vec![fresh], switch: self.switch(&workspace, fresh), ..Intent::default() };
        if self.runs(&workspace)? {
            let attached = self.attach_locked(workspace, lock).await?;
            let undertaking = self.undertake("merge", Some(id), intent)?;
            self.freeze_running(&attached, &undertaking, What::DiskAsItIs, fresh, TakeMemory::Nothing)
                .await?;
            undertaking.finish(|_| Ok(()))?;
        } else {
            let undertaking = self.undertake("merge", Some(id), intent)?;
            self.freeze_stopped(&workspace, &undertaking, fresh)?;
            undertaking.finish(|_| Ok(()))?;
        }
        Ok(true)
    }

    /// Locks a workspace without waiting. `None` if another operation has it locked, or if it no longer exists.
    async fn lock_if_free(&self, id: WorkspaceId) -> Result<Option<(Workspace, WorkspaceLock)>, Failure> {
        let dir = self.installation.paths.workspaces_dir();
        let taken = WorkspaceLock::take(&dir, id, Duration::ZERO).await;
        let Some(lock) = taken.map_err(|error| self.installation.io("lock the workspace", error))? else {
            return Ok(None);
        };
        match self.meta.read(|read| read.workspace_if_known(id))? {
            Some(workspace) => Ok(Some((workspace, lock))),
            None => {
                lock.remove(&dir, id);
                Ok(None)
            }
        }
    }

    fn runs(&self, workspace: &Workspace) -> Result<bool, Failure> {
        Ok(self.living_machine(workspace)?.is_some())
    }

    fn living_machine(&self, workspace: &Workspace) -> Result<Option<MachineState>, Failure> {
        Ok(self.machine_of(workspace)?.filter(|machine| machine.record.is_alive()))
    }

    /// Whether a machine can see, or has open, a disk that was replaced or removed.
    fn reads_old_disks(&self, workspace: &Workspace) -> Result<bool, Failure> {
        let Some(state) = self.living_machine(workspace)? else { return Ok(false) };
        Ok(self.sees_old(&state)? || self.has_old_open(&state)?)
    }

    /// Whether a machine has a disk open that was replaced or removed.
    #[expect(clippy::disallowed_methods, reason = "run `in_place`")]
    fn has_old_open(&self, state: &MachineState) -> Result<bool, Failure> {
        let dir = self.installation.paths.disks_dir();
        let look = || Ok(has_old(state.record.pid, &dir.canonicalize()?));
        in_place(look).map_err(|error| self.installation.io("find the disks", error))
    }
}

/// Whether a process has a file open that was in `dir` and has been replaced or removed there. The process may see another
/// directory in its place, in which the file still has its name.
#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
fn has_old(pid: u32, dir: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| Some((fs::read_link(entry.path()).ok()?, entry.path()))).any(
        |(name, descriptor)| {
            if let Some(was) = name.to_str().and_then(|name| name.strip_suffix(DELETED)).map(Path::new) {
                // A file that was bind-mounted by itself, and no longer is, has the name "/".
                return was == Path::new("/") || was.parent() == Some(dir);
            }
            name.parent() == Some(dir) && !is_same(&descriptor, &name)
        },
    )
}

#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
fn is_same(descriptor: &Path, name: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
    identity(descriptor) == identity(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_that_was_replaced_is_noticed_and_one_that_is_there_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let (disk, fresh) = (path.join("a"), path.join("b"));
        fs::write(&disk, "old").unwrap();
        let open = fs::File::open(&disk).unwrap();
        assert!(!has_old(std::process::id(), &path));
        fs::write(&fresh, "new").unwrap();
        fs::rename(&fresh, &disk).unwrap();
        assert!(has_old(std::process::id(), &path));
        drop(open);
        assert!(!has_old(std::process::id(), &path));
        assert!(!has_old(std::process::id(), Path::new("/nowhere")));
    }
}
