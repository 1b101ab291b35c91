//! The directory of a one-shot machine, and the lock that shows that its owner is alive.
//!
//! ```text
//! machines/<id>.lock   locked while the owner lives; the kernel releases the lock when the owner dies
//! machines/<id>/       disk, sockets, logs
//! ```
#![expect(clippy::disallowed_methods, reason = "the public functions and `drop` run `in_place`")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_blocking::in_place;
use agentiso_core::WorkspaceId;
use agentiso_core::ports::Disks;
use agentiso_vmm::User;
use rustix::fs::{FlockOperation, flock};

/// A machine's directory. Dropping it removes the directory.
pub struct MachineDir {
    path: PathBuf,
    lock_path: PathBuf,
    _lock: File,
    user: Option<User>,
    disks: Option<Arc<dyn Disks>>,
}

impl MachineDir {
    /// Creates the directory of a new machine, owned by `user` if QEMU runs as another user.
    pub fn create(machines: &Path, id: WorkspaceId, user: Option<User>) -> io::Result<Self> {
        in_place(|| Self::create_blocking(machines, id, user))
    }

    fn create_blocking(machines: &Path, id: WorkspaceId, user: Option<User>) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(machines)?;
        let lock_path = machines.join(format!("{id}.lock"));
        let lock = lock_new(&lock_path)?;
        let path = machines.join(id.to_string());
        let dir = Self { path, lock_path, _lock: lock, user, disks: None };
        fs::DirBuilder::new().mode(0o700).create(&dir.path)?;
        if let Some((uid, gid)) = dir.user().map(User::owner) {
            std::os::unix::fs::chown(&dir.path, Some(uid), Some(gid))?;
        }
        Ok(dir)
    }

    /// Sets the back end of the disks in it, which cleans up after them when the directory is removed.
    pub fn with_disks(mut self, disks: Arc<dyn Disks>) -> Self {
        self.disks = Some(disks);
        self
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user its QEMU runs as, if not the user of this process.
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }
}

impl Drop for MachineDir {
    fn drop(&mut self) {
        in_place(|| {
            // Whatever cannot be removed is removed by the next process that starts a machine.
            let _ = fs::remove_dir_all(&self.path);
            let _ = fs::remove_file(&self.lock_path);
            if let Some(disks) = &self.disks {
                let _ = disks.sweep();
            }
        });
    }
}

/// Creates and locks a lock file. A sweep may remove the file between the two steps; then it starts over.
fn lock_new(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        match fs::metadata(path) {
            Ok(named) if named.ino() == file.metadata()?.ino() => return Ok(file),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes the directories of machines whose owner is dead. Returns how many there were.
pub fn sweep(machines: &Path) -> io::Result<usize> {
    in_place(|| sweep_blocking(machines))
}

fn sweep_blocking(machines: &Path) -> io::Result<usize> {
    let entries = match fs::read_dir(machines) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut removed = 0;
    for entry in entries {
        let path = entry?.path();
        let lock_path = if path.extension().is_some_and(|kind| kind == "lock") {
            path
        } else {
            path.with_extension("lock")
        };
        removed += usize::from(sweep_one(&lock_path)?);
    }
    Ok(removed)
}

fn sweep_one(lock_path: &Path) -> io::Result<bool> {
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(lock_path)?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    let found = match fs::remove_dir_all(lock_path.with_extension("")) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    match fs::remove_file(lock_path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> WorkspaceId {
        WorkspaceId::from_uuid(uuid::Uuid::now_v7())
    }

    #[test]
    fn a_living_owner_keeps_its_directory_and_a_dead_one_does_not() {
        let machines = tempfile::tempdir().unwrap();
        let living = MachineDir::create(machines.path(), id(), None).unwrap();
        let dead = MachineDir::create(machines.path(), id(), None).unwrap();
        fs::write(dead.path().join("disk.qcow2"), b"x").unwrap();
        // A killed process runs no destructors, and the kernel closes its files.
        let (path, lock) = (dead.path().to_owned(), dead._lock.try_clone().unwrap());
        std::mem::forget(dead);
        flock(&lock, FlockOperation::Unlock).unwrap();

        assert_eq!(sweep(machines.path()).unwrap(), 1);
        assert!(living.path().is_dir() && !path.exists());
        drop(living);
        assert_eq!(fs::read_dir(machines.path()).unwrap().count(), 0);
    }

    #[test]
    fn sweeping_where_nothing_ever_ran_is_fine() {
        assert_eq!(sweep(Path::new("/nonexistent/machines")).unwrap(), 0);
    }
}
