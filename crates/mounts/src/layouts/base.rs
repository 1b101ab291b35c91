//! A base: the lower layers that show one tree, leased.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use agentiso_store::TreeId;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};

use crate::error::MountError;
use crate::files::{is_at, try_lock};

/// The lower layers of one tree. They stay until this is dropped.
#[derive(Debug)]
pub struct Base {
    pub(super) tree: TreeId,
    pub(super) lowers: Vec<PathBuf>,
    pub(super) leases: Vec<Lease>,
}

impl Base {
    /// The tree that the layers show together.
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// The directories, the uppermost first. Nothing may write to them.
    pub fn lowers(&self) -> &[PathBuf] {
        &self.lowers
    }

    /// The directories of the layouts, in which marks of long-lived users are left.
    pub(crate) fn layouts(&self) -> impl Iterator<Item = &Path> {
        self.leases.iter().map(|lease| lease.path.as_path())
    }
}

/// Keeps one layout from eviction.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) path: PathBuf,
    _file: File,
}

impl Lease {
    /// Leases a layout; nothing if it does not exist, or is being removed.
    pub(super) fn take(path: &Path) -> Result<Option<Self>, MountError> {
        let lock_path = path.join("lease");
        let file = match File::options().read(true).write(true).open(&lock_path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(MountError::io("open", &lock_path)(error)),
        };
        if !try_lock(&file, false).map_err(MountError::io("lock", &lock_path))?
            || !is_at(&file, &lock_path).map_err(MountError::io("read", &lock_path))?
        {
            return Ok(None);
        }
        touch(&file).map_err(MountError::os("write", &lock_path))?;
        Ok(Some(Self { path: path.to_owned(), _file: file }))
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.path.join("tree")
    }
}

fn touch(file: impl AsFd) -> rustix::io::Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    futimens(file, &times)
}
