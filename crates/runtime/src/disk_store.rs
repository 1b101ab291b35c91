//! The directory with all disks, and the back end that makes them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use agentiso_core::ports::Dataset;
use agentiso_core::{Code, Failure};
use agentiso_disks::{Choice, Wanted, choose};
use rustix::fs::{FlockOperation, flock};

use crate::Installation;
use crate::hold::disk_id_of;
use agentiso_config as config;
use agentiso_config::DiskBackend;
use agentiso_config::paths::Paths;

/// Says which back end made the disks.
const BACKEND: &str = ".backend";
const LOCK: &str = ".lock";

/// While this is held no disk is removed.
#[derive(Debug)]
pub(crate) struct DisksInUse {
    _lock: File,
}

/// While this is held nobody makes or takes disks that the database does not know.
#[derive(Debug)]
pub(crate) struct DisksAtRest {
    _lock: File,
}

/// The back end for a data directory: the one its disks were made with, else the one the configuration asks for, else
/// the best one.
pub(crate) fn backend(paths: &Paths, wanted: &config::Disks) -> Result<Choice, Failure> {
    let dir = &paths.disks_dir();
    let made_with = made_with(dir);
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

/// What the disks in a directory were made with. Where there are none, that does not matter any more.
pub(crate) fn made_with(dir: &Path) -> Option<String> {
    let made_with = fs::read_to_string(dir.join(BACKEND)).ok()?;
    let mut entries = fs::read_dir(dir).ok()?.filter_map(Result::ok);
    entries.any(|entry| disk_id_of(&entry.path()).is_some()).then(|| made_with.trim().to_owned())
}

impl Installation {
    /// Makes the directories that workspaces need, and fixes the back end of their disks.
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

    /// Keeps disks from being removed.
    pub(crate) fn use_disks(&self) -> Result<DisksInUse, Failure> {
        let lock = self.disks_lock(FlockOperation::LockShared);
        lock.map(|lock| DisksInUse { _lock: lock }).map_err(|error| self.io("lock the disks", error))
    }

    /// Waits for nobody: `None` while someone makes disks.
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
