//! Creating directories and files atomically.
//!
//! They have a partial name and are locked until they are finished. The next process that opens the parent directory
//! removes all partial entries that are not locked: their process was killed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::access;

const SUFFIX: &str = ".partial";

/// A new, unused partial name.
pub(crate) fn unused_path(parent: &Path, stem: &str) -> io::Result<PathBuf> {
    Ok(parent.join(format!(".{stem}.{:016x}{SUFFIX}", random()?)))
}

/// A partial directory. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct PartialDir {
    path: PathBuf,
    _lock: File,
}

impl PartialDir {
    /// Makes `.<stem>.<random>.partial` in `parent`.
    pub(crate) fn create(parent: &Path, stem: &str) -> io::Result<Self> {
        loop {
            let path = unused_path(parent, stem)?;
            fs::create_dir(&path)?;
            access::share_directory(&path)?;
            let lock = open(&path)?;
            rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
            // A sweep may have removed the directory between the two calls: then start over.
            if fs::symlink_metadata(&path).is_ok_and(|there| is_same(&lock, &there)) {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PartialDir {
    fn drop(&mut self) {
        // After a failure the next sweep tries again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A partial file. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct PartialFile {
    path: PathBuf,
    file: File,
}

impl PartialFile {
    /// Makes `.<stem>.<random>.partial` in `parent`.
    pub(crate) fn create(parent: &Path, stem: &str) -> io::Result<Self> {
        loop {
            let path = unused_path(parent, stem)?;
            let file = File::options().read(true).write(true).create_new(true).open(&path)?;
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            if fs::symlink_metadata(&path).is_ok_and(|there| is_same(&file, &there)) {
                return Ok(Self { path, file });
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Flushes it and renames it to its final name, replacing an existing file.
    pub(crate) fn finish(self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, target)?;
        sync_parent(target)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After `finish` the name is gone already.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes partial entries of killed processes from `parent`.
pub(crate) fn sweep(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_partial = name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(SUFFIX));
        let Ok(kind) = entry.file_type() else { continue };
        if !is_partial || kind.is_symlink() {
            continue;
        }
        let Ok(lock) = open(&entry.path()) else { continue };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        if kind.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Flushes the directory entry of `path`.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn is_same(open: &File, named: &fs::Metadata) -> bool {
    open.metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == (named.dev(), named.ino()))
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_removes_only_files_without_a_lock() {
        let place = tempfile::tempdir().unwrap();
        let held_dir = PartialDir::create(place.path(), "held").unwrap();
        let held_file = PartialFile::create(place.path(), "held").unwrap();
        let stale = place.path().join(".dead.0.partial");
        fs::create_dir(&stale).unwrap();
        fs::write(stale.join("rootfs.raw"), "x").unwrap();
        fs::write(place.path().join(".dead.1.partial"), "x").unwrap();
        fs::create_dir(place.path().join("finished")).unwrap();

        sweep(place.path()).unwrap();

        assert!(held_dir.path().exists() && held_file.path().exists());
        assert!(!stale.exists() && !place.path().join(".dead.1.partial").exists());
        assert!(place.path().join("finished").exists());
        drop((held_dir, held_file));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
