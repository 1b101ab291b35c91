//! Takes unchanged files from a directory that was exported before, instead of writing them again.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fstat, ioctl_ficlone, linkat, openat, statat, unlinkat,
};

use crate::error::StoreError;
use crate::id::TreeId;
use crate::import::open_beneath;
use crate::node::{File, Node};
use crate::path::TreePath;
use crate::store::Store;
use crate::tree::directory;

/// How files are shared with the other directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sharing {
    /// Copy-on-write clones of the file system; nothing is shared where it has none.
    Reflink,
    /// Hard links. Both directories must only be read from then on, as the lower layer of an overlay is.
    HardLink,
}

/// A directory that has the files of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Reuse<'r> {
    /// The directory. It must not have been changed since it was exported; size, time and mode of each file are checked.
    pub directory: &'r Path,
    /// The tree that it was exported from.
    pub tree: TreeId,
    /// How to share.
    pub sharing: Sharing,
}

/// The other directory, open.
pub(super) struct Source {
    root: OwnedFd,
    pub(super) sharing: Sharing,
}

/// What became of a file that could be shared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shared {
    Linked,
    Cloned,
    No,
}

impl Source {
    pub(super) fn open(reuse: &Reuse<'_>) -> Result<Self, StoreError> {
        let root = std::fs::File::open(reuse.directory).map_err(StoreError::io("open", reuse.directory))?;
        Ok(Self { root: root.into(), sharing: reuse.sharing })
    }

    /// The directory at a path, if it is still there.
    pub(super) fn directory(&self, path: &TreePath) -> Option<OwnedFd> {
        open_beneath(&self.root, path, OFlags::PATH | OFlags::DIRECTORY).ok()
    }

    /// Links a file. Any reason not to is a reason to write it instead.
    pub(super) fn link(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &[u8], file: &File) -> Shared {
        let is_good = |stat: Stat| is_unchanged(&stat, file);
        if !statat(from, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_good)
            || linkat(from, name, to, name, AtFlags::empty()).is_err()
        {
            return Shared::No;
        }
        // It may have been replaced in between.
        if statat(to, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_good) {
            return Shared::Linked;
        }
        let _ = unlinkat(to, name, AtFlags::empty());
        Shared::No
    }

    /// Clones the bytes of a file into an open, empty one.
    pub(super) fn clone_into(&self, from: BorrowedFd<'_>, name: &[u8], file: &File, to: impl AsFd) -> Shared {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(source) = openat(from, name, flags, Mode::empty()) else { return Shared::No };
        let is_good = fstat(&source).is_ok_and(|stat| is_unchanged(&stat, file));
        if is_good && ioctl_ficlone(to, &source).is_ok() { Shared::Cloned } else { Shared::No }
    }
}

fn is_unchanged(stat: &Stat, file: &File) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_size as u64 == file.size
        && stat.st_mtime == file.meta.mtime.seconds
        && stat.st_mtime_nsec == u64::from(file.meta.mtime.nanos)
        && (stat.st_mode & 0o7777) as u16 == file.meta.mode
}

/// The entries of the same directory in the other tree.
pub(super) struct Known(HashMap<Box<[u8]>, Node>);

impl Known {
    pub(super) fn load(store: &Store, other: Option<TreeId>) -> Result<Self, StoreError> {
        let Some(other) = other else { return Ok(Self(HashMap::new())) };
        let entries = directory(store, other)?.entries;
        Ok(Self(entries.into_iter().map(|entry| (entry.name, entry.node)).collect()))
    }

    pub(super) fn directory(&self, name: &[u8]) -> Option<TreeId> {
        match self.0.get(name) {
            Some(Node::Directory(tree)) => Some(*tree),
            _ => None,
        }
    }

    pub(super) fn into_files(self) -> HashMap<Box<[u8]>, Node> {
        self.0
    }
}
