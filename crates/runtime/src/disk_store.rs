//! The directory of disks and its back end.
//!
//! A file records which back end the disks were made with. It takes precedence over the configuration as long as there
//! are disks, because the back ends cannot read each other's. A lock on the directory separates those who create disks
//! (shared) from the one who removes unreferenced disks (exclusive).
#![expect(
    clippy::disallowed_methods,
    reason = "called through `in_place`, by `Installation::open` and `Workspaces`"
)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use agentiso_core::ports::Dataset;
use agentiso_core::{Code, Failure};
use agentiso_disks::{Choice, Wanted, choose};
use rustix::fs::{FlockOperation, flock};

use crate::Installation;
use crate::pinned::disk_id_of;
use agentiso_config as config;
use agentiso_config::DiskBackend;
use agentiso_config::paths::Paths;

/// The file that names the back end of the disks.
const BACKEND: &str = ".backend";
const LOCK: &str = ".lock";

/// Shared lock: while it is held, no unreferenced disk is removed.
#[derive(Debug)]
pub(crate) struct DisksInUse {
    _lock: File,
}

/// Exclusive lock: while it is held, nobody creates or uses disks that are not in the database.
#[derive(Debug)]
pub(crate) struct DisksAtRest {
    _lock: File,
}

/// Picks the back end for a data directory: that of the existing disks, else the configured one, else the best one.
pub(crate) fn backend(paths: &Paths, wanted: &config::Disks) -> Result<Choice, Failure> {
    let dir = &paths.disks_dir();
    let made_with = made_with(dir)?;
    let asked = match wanted.backend {
        DiskBackend::Auto => wanted.zfs_dataset.is_some().then_some("zfs"),
        DiskBackend::Qcow2 => Some("qcow2"),
        DiskBackend::Reflink => Some("reflink"),
        DiskBackend::Zfs => Some("zfs"),
    };
    let chosen = match (made_with.as_deref(), asked) {
        (Some(made), Some(asked)) if made != asked => {
            let message =
                format!("disks.backend asks for {asked}, but the disks in {} are {made}", dir.display());
            return Err(Failure::new(Code::InvalidConfig, message).with_remedy(format!(
                "set disks.backend to {made:?} or auto, or use another AGENTISO_HOME"
            )));
        }
        (Some(made), _) => Some(made.to_owned()),
        (None, asked) => asked.map(str::to_owned),
    };
    let wanted = match (chosen.as_deref(), &wanted.zfs_dataset) {
        (Some("qcow2"), _) => Wanted::Qcow2,
        (Some("reflink"), _) => Wanted::Reflink,
        (Some("zfs"), Some(dataset)) => {
            Wanted::Zfs(Dataset::parse(dataset).map_err(Failure::from)?, paths.home.clone())
        }
        (Some("zfs"), None) => {
            let message = format!("the disks in {} are in a ZFS pool, and none is configured", dir.display());
            return Err(Failure::new(Code::InvalidConfig, message)
                .with_remedy("set disks.zfs_dataset to the dataset they are in"));
        }
        _ => Wanted::Auto,
    };
    let mut choice = choose(dir, wanted)?;
    if made_with.is_some() && asked.is_none() {
        choice.why = "the disks there were made with it".to_owned();
    }
    Ok(choice)
}

/// The back end of the disks in a directory; `None` if there are no disks. If that cannot be determined it is an error:
/// another back end would not find the disks.
pub(crate) fn made_with(dir: &Path) -> Result<Option<String>, Failure> {
    read_made_with(dir).map_err(|error| {
        let message = format!("could not determine the back end of the disks in {}: {error}", dir.display());
        Failure::new(Code::of_io(&error), message).with_remedy("check that the directory can be read")
    })
}

fn read_made_with(dir: &Path) -> io::Result<Option<String>> {
    let made_with = match fs::read_to_string(dir.join(BACKEND)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    for entry in fs::read_dir(dir)? {
        if disk_id_of(&entry?.path()).is_some() {
            return Ok(Some(made_with.trim().to_owned()));
        }
    }
    Ok(None)
}

impl Installation {
    /// Records the back end of the disks.
    pub(crate) fn open_disks(&self) -> Result<(), Failure> {
        let dir = self.paths.disks_dir();
        let record = dir.join(BACKEND);
        if fs::read_to_string(&record).is_ok_and(|made_with| made_with.trim() == self.disks().name()) {
            return Ok(());
        }
        let write = || {
            let partial = dir.join(format!("{BACKEND}.{}", std::process::id()));
            fs::write(&partial, self.disks().name())?;
            fs::rename(partial, &record)
        };
        write().map_err(|error| self.io("open the directory of disks", error))
    }

    /// Keeps unreferenced disks from being removed. Waits while somebody removes some.
    pub(crate) fn use_disks(&self) -> Result<DisksInUse, Failure> {
        let lock = self.disks_lock(FlockOperation::LockShared);
        lock.map(|lock| DisksInUse { _lock: lock }).map_err(|error| self.io("lock the disks", error))
    }

    /// Takes the exclusive lock without waiting. `None` while somebody creates disks.
    pub(crate) fn disks_at_rest(&self) -> Result<Option<DisksAtRest>, Failure> {
        match self.disks_lock(FlockOperation::NonBlockingLockExclusive) {
            Ok(lock) => Ok(Some(DisksAtRest { _lock: lock })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(self.io("lock the disks", error)),
        }
    }

    fn disks_lock(&self, how: FlockOperation) -> io::Result<File> {
        let path = self.paths.disks_dir().join(LOCK);
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        flock(&file, how)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_back_end_that_cannot_be_read_is_an_error_and_not_a_new_choice() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(made_with(dir.path()).unwrap(), None);
        let disk = dir.path().join(format!("{}.qcow2", uuid::Uuid::now_v7()));
        fs::write(&disk, "").unwrap();
        fs::write(dir.path().join(BACKEND), "qcow2\n").unwrap();
        assert_eq!(made_with(dir.path()).unwrap().as_deref(), Some("qcow2"));
        // A directory in its place cannot be read, and does exist.
        fs::remove_file(dir.path().join(BACKEND)).unwrap();
        fs::create_dir(dir.path().join(BACKEND)).unwrap();
        let failure = made_with(dir.path()).unwrap_err();
        assert!(failure.message().starts_with("could not determine the back end"), "{failure}");
    }
}
