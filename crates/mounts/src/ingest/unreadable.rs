//! Files and directories that their own owner may not read. Root reads them anyway; for others they are made readable
//! while they are read.
//!
//! ```text
//! list them with their modes ──► record the list ──► add the owner's bits ──► read ──► give the modes back ──► remove the list
//!                                  └ killed from here on: the next ingest or owner gives them back first
//! ```
//!
//! The tree gets the recorded modes. Commands that run meanwhile may see the others for the time of the ingest. They may
//! also replace a directory by a link, so nothing is opened by a path that a link could lead away.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agentiso_store::{
    Edit, File, Meta, Node, Session, StoreError, TreeId, TreePath, directory_meta, edit, lookup,
};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::MountError;

/// What the owner needs to read a directory, and a file.
const DIRECTORY: u32 = 0o500;
const FILE: u32 = 0o400;
const VERSION: u32 = 1;

#[derive(Debug, Deserialize, Serialize)]
struct Record {
    version: u32,
    /// Paths below the writable layer and their modes, parents first.
    modes: Vec<(Vec<u8>, u32)>,
}

/// What was made readable, until this is dropped.
#[derive(Debug)]
pub(super) struct Readable {
    root: OwnedFd,
    path: PathBuf,
    record: PathBuf,
    modes: Vec<(Vec<u8>, u32)>,
}

impl Readable {
    fn new(path: &Path, record: &Path, modes: Vec<(Vec<u8>, u32)>) -> Result<Self, MountError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty()).map_err(MountError::os("open", path))?;
        Ok(Self { root, path: path.to_owned(), record: record.to_owned(), modes })
    }

    /// Makes everything below a directory readable.
    pub(super) fn make(root: &Path, record: &Path) -> Result<Self, MountError> {
        let mut readable = Self::new(root, record, Vec::new())?;
        // What a directory hides is found only once it is readable, so the list grows by level.
        let mut level = vec![TreePath::root()];
        while !level.is_empty() {
            let known = readable.modes.len();
            for path in &level {
                if let Some(fd) = readable.open(path)? {
                    let stat = fstat(&fd).map_err(MountError::os("read", root))?;
                    readable.note(path, stat.st_mode, DIRECTORY);
                }
            }
            readable.open_from(known)?;
            let known = readable.modes.len();
            let mut next = Vec::new();
            for path in &level {
                readable.list(path, &mut next)?;
            }
            readable.open_from(known)?;
            level = next;
        }
        Ok(readable)
    }

    /// Notes the files of a directory, and adds its directories to the next level.
    fn list(&mut self, path: &TreePath, next: &mut Vec<TreePath>) -> Result<(), MountError> {
        let Some(directory) = self.open(path)? else { return Ok(()) };
        let failed = |error| MountError::os("read", self.path.join(path.as_host()))(error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&directory, c".", flags, Mode::empty()).map_err(failed)?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => found.push((path.join(name), stat.st_mode)),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        for (path, mode) in found {
            match FileType::from_raw_mode(mode) {
                FileType::Directory => next.push(path),
                FileType::RegularFile => self.note(&path, mode, FILE),
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives back what an ingest that was killed has changed.
    pub(super) fn recover(root: &Path, record: &Path) -> Result<(), MountError> {
        let bytes = match fs::read(record) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(MountError::io("read", record)(error)),
        };
        let found: Record =
            serde_json::from_slice(&bytes).map_err(|error| MountError::damaged(record, error))?;
        if found.version != VERSION {
            return Err(MountError::damaged(record, format!("it has version {}", found.version)));
        }
        drop(Self::new(root, record, found.modes)?);
        Ok(())
    }

    fn note(&mut self, path: &TreePath, mode: u32, needed: u32) {
        let mode = mode & 0o7777;
        if mode & needed != needed {
            self.modes.push((path.as_bytes().to_vec(), mode));
        }
    }

    /// Records the list and makes readable what was added to it.
    fn open_from(&self, known: usize) -> Result<(), MountError> {
        let added = self.modes.get(known..).unwrap_or_default();
        if added.is_empty() {
            return Ok(());
        }
        let record = Record { version: VERSION, modes: self.modes.clone() };
        let bytes = serde_json::to_vec(&record).map_err(|error| MountError::damaged(&self.record, error))?;
        crate::files::write_bytes(&self.record, &bytes)?;
        added.iter().try_for_each(|(path, mode)| self.set_mode(path, mode | DIRECTORY))
    }

    /// Opens a path without reading it; nothing if it vanished or became a link.
    fn open(&self, path: &TreePath) -> Result<Option<OwnedFd>, MountError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(&self.root, path.as_host(), flags, Mode::empty(), resolve) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(MountError::os("open", self.path.join(path.as_host()))(error)),
        }
    }

    /// Changes the mode of a file or directory; a link is left alone.
    fn set_mode(&self, path: &[u8], mode: u32) -> Result<(), MountError> {
        let path = TreePath::parse(path)?;
        let Some(fd) = self.open(&path)? else { return Ok(()) };
        let failed = |error| MountError::io("change the mode of", self.path.join(path.as_host()))(error);
        let stat = fstat(&fd).map_err(|error| failed(error.into()))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Ok(());
        }
        let open_file = format!("/proc/self/fd/{}", fd.as_raw_fd());
        fs::set_permissions(open_file, fs::Permissions::from_mode(mode)).map_err(failed)
    }

    /// The tree with the modes as they were.
    pub(super) fn as_before(&self, session: &Session, tree: TreeId) -> Result<TreeId, StoreError> {
        let mut edits = BTreeMap::new();
        for (path, mode) in &self.modes {
            let path = TreePath::parse(path)?;
            let with_mode = |meta: Meta| Meta { mode: *mode as u16, ..meta };
            match lookup(session, tree, &path)? {
                Some(Node::Directory(found)) => {
                    edits.insert(path, Edit::SetMeta(with_mode(directory_meta(session, found)?)));
                }
                Some(Node::File(file)) => {
                    let meta = with_mode(file.meta);
                    edits.insert(path, Edit::Put(Node::File(File { meta, ..file })));
                }
                _ => {}
            }
        }
        if edits.is_empty() { Ok(tree) } else { edit(session, tree, edits) }
    }
}

impl Drop for Readable {
    fn drop(&mut self) {
        // Children first: a directory that is closed again hides them. What vanished meanwhile needs nothing.
        for (path, mode) in self.modes.iter().rev() {
            let _ = self.set_mode(path, *mode);
        }
        let _ = fs::remove_file(&self.record);
    }
}
