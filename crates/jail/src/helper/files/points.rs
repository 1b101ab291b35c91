//! Mount points: reached without following symbolic links, and created only where the sandbox itself may create them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, mknodat, openat};
use rustix::io::Errno;

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const ANYTHING: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The file systems of the sandbox itself. In others, which are the caller's, nothing is ever created.
#[derive(Default)]
pub(super) struct Points {
    own: BTreeSet<u64>,
}

impl Points {
    /// Allows creating mount points in a file system.
    pub fn may_create_in(&mut self, mount: impl AsFd) -> Result<(), Errno> {
        self.own.insert(fstat(mount)?.st_dev);
        Ok(())
    }

    /// Opens a directory, and creates it and its parents if they are missing. ENOENT if they are missing where nothing may
    /// be created, ENOTDIR if a symbolic link or a file is in the way.
    pub fn directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let mut at = openat(CWD, "/", DIRECTORY, Mode::empty())?;
        for part in path.components() {
            if let Component::Normal(name) = part {
                at = self.child(&at, name)?;
            }
        }
        Ok(at)
    }

    /// Opens a file, and creates it and its parents if they are missing.
    pub fn file(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::ISDIR) };
        let parent = self.directory(parent)?;
        let found = match openat(&parent, name, ANYTHING, Mode::empty()) {
            Err(Errno::NOENT) if self.is_own(&parent)? => {
                mknodat(&parent, name, FileType::RegularFile, Mode::from_raw_mode(0o644), 0)?;
                openat(&parent, name, ANYTHING, Mode::empty())
            }
            found => found,
        }?;
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            FileType::Symlink => Err(Errno::LOOP),
            FileType::Directory => Err(Errno::ISDIR),
            _ => Ok(found),
        }
    }

    fn child(&self, parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
        match openat(parent, name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) if self.is_own(parent)? => {
                mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
                openat(parent, name, DIRECTORY, Mode::empty())
            }
            found => found,
        }
    }

    fn is_own(&self, dir: &OwnedFd) -> Result<bool, Errno> {
        Ok(self.own.contains(&fstat(dir)?.st_dev))
    }
}
