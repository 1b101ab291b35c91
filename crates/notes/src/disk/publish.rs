//! Creates, replaces and removes files in one step each.
//!
//! A new content is written to a temporary file and flushed. It then changes places with the old file (`RENAME_EXCHANGE`),
//! and what was displaced is compared with what the change was made for: if another program, which knows no lock, has
//! saved something in between, the two change places again and nothing has happened.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, fchmod, fdatasync, openat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::TEMPORARY;
use super::directory::Directory;
use crate::error::NotesError;
use crate::etag::Etag;
use crate::path::NotePath;

/// A new content in a temporary file beside its place. Removed if it is not published.
#[derive(Debug)]
pub(crate) struct Staged {
    folder: OwnedFd,
    temporary: String,
    path: NotePath,
    file: File,
    is_done: bool,
}

/// Whether a change took place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Published {
    /// It did.
    Yes,
    /// The file is not what the change was made for; nothing was changed.
    Raced,
}

impl Directory {
    /// Writes a new content to a temporary file. The mode is that of the file it replaces.
    pub(crate) fn stage(
        &self,
        path: &NotePath,
        bytes: &[u8],
        mode: Option<u32>,
    ) -> Result<Staged, NotesError> {
        let folder = self.create_folder(path)?;
        let temporary = temporary_name()?;
        let failed = || self.host(path.as_str());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&folder, &*temporary, flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(file.map_err(NotesError::os("create", failed()))?);
        let mut staged = Staged { folder, temporary, path: path.clone(), file, is_done: false };
        staged.file.write_all(bytes).map_err(NotesError::io("write", failed()))?;
        if let Some(mode) = mode {
            // Programs that are set-user-ID are no notes.
            fchmod(&staged.file, Mode::from_raw_mode(mode & 0o777))
                .map_err(NotesError::os("write", failed()))?;
        }
        Ok(staged)
    }

    /// Removes a file if it has this content.
    pub(crate) fn remove(&self, path: &NotePath, expected: Etag) -> Result<Published, NotesError> {
        let failed = || self.host(path.as_str());
        let Some(folder) = self.folder(path.folder())? else { return Ok(Published::Raced) };
        let temporary = temporary_name()?;
        match renameat_with(&folder, path.name(), &folder, &*temporary, RenameFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(Published::Raced),
            Err(error) => return Err(NotesError::os("remove", failed())(error)),
        }
        let displaced = self.etag_at(path, &temporary);
        if !matches!(displaced, Ok(Some(etag)) if etag == expected) {
            let back = rename_new(&folder, &temporary, &folder, path.name());
            back.map_err(NotesError::os("restore", failed()))?;
            return displaced.map(|_| Published::Raced);
        }
        unlinkat(&folder, &*temporary, AtFlags::empty()).map_err(NotesError::os("remove", failed()))?;
        Ok(Published::Yes)
    }

    /// Renames a file to a path where nothing is, if it has this content.
    pub(crate) fn rename(
        &self,
        from: &NotePath,
        to: &NotePath,
        expected: Etag,
    ) -> Result<Published, NotesError> {
        let failed = || NotesError::os("move", self.host(from.as_str()));
        let Some(old) = self.folder(from.folder())? else { return Ok(Published::Raced) };
        let new = self.create_folder(to)?;
        match rename_new(&old, from.name(), &new, to.name()) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::EXIST) => return Ok(Published::Raced),
            Err(error) => return Err(failed()(error)),
        }
        let moved = self.etag_at(to, to.name());
        if matches!(moved, Ok(Some(etag)) if etag == expected) {
            return Ok(Published::Yes);
        }
        rename_new(&new, to.name(), &old, from.name()).map_err(failed())?;
        moved.map(|_| Published::Raced)
    }

    /// Flushes the folder of a file, so that its change of name survives a power failure.
    pub(crate) fn sync_folder_of(&self, path: &str) -> Result<(), NotesError> {
        self.sync_folder_at(path.rsplit_once('/').map_or("", |(parent, _)| parent))
    }

    /// Flushes the names in a folder to disk, if it exists.
    pub(crate) fn sync_folder_at(&self, folder: &str) -> Result<(), NotesError> {
        match self.folder(folder)? {
            Some(opened) => rustix::fs::fsync(opened).map_err(NotesError::os("write", self.host(folder))),
            None => Ok(()),
        }
    }

    /// The etag of a file under another name in the folder of `path`.
    fn etag_at(&self, path: &NotePath, name: &str) -> Result<Option<Etag>, NotesError> {
        let at = match path.folder() {
            "" => name.to_owned(),
            folder => format!("{folder}/{name}"),
        };
        match self.read(&at) {
            Ok(found) => Ok(found.map(|found| Etag::of(&found.bytes))),
            Err(NotesError::TooLarge { .. } | NotesError::NotAFile { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Staged {
    /// Waits until the content is on disk.
    pub(crate) fn sync(&self, directory: &Directory) -> Result<(), NotesError> {
        fdatasync(&self.file).map_err(NotesError::os("write", directory.host(self.path.as_str())))
    }

    /// Puts the content in its place, if the file there has the expected content, or is absent if none is expected.
    pub(crate) fn publish(
        mut self,
        directory: &Directory,
        expected: Option<Etag>,
    ) -> Result<Published, NotesError> {
        let failed = NotesError::os("write", directory.host(self.path.as_str()));
        let name = self.path.name().to_owned();
        let Some(expected) = expected else {
            return match rename_new(&self.folder, &self.temporary, &self.folder, &name) {
                Ok(()) => {
                    self.is_done = true;
                    Ok(Published::Yes)
                }
                Err(Errno::EXIST) => Ok(Published::Raced),
                Err(error) => Err(failed(error)),
            };
        };
        match self.exchange(&name) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(Published::Raced),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return self.replace(directory, &name, expected);
            }
            Err(error) => return Err(failed(error)),
        }
        let displaced = directory.etag_at(&self.path, &self.temporary);
        if matches!(displaced, Ok(Some(etag)) if etag == expected) {
            // The displaced file is now under the temporary name and removed with it.
            return Ok(Published::Yes);
        }
        self.exchange(&name).map_err(failed)?;
        displaced.map(|_| Published::Raced)
    }

    /// For file systems that cannot exchange two files: compares, then replaces.
    fn replace(mut self, directory: &Directory, name: &str, expected: Etag) -> Result<Published, NotesError> {
        if directory.etag_at(&self.path, name)? != Some(expected) {
            return Ok(Published::Raced);
        }
        renameat_with(&self.folder, &*self.temporary, &self.folder, name, RenameFlags::empty())
            .map_err(NotesError::os("write", directory.host(self.path.as_str())))?;
        self.is_done = true;
        Ok(Published::Yes)
    }

    fn exchange(&self, name: &str) -> Result<(), Errno> {
        renameat_with(&self.folder, &*self.temporary, &self.folder, name, RenameFlags::EXCHANGE)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_done {
            // What is left is removed by the next scan.
            let _ = unlinkat(&self.folder, &*self.temporary, AtFlags::empty());
        }
    }
}

/// Renames a file to a name that must not be in use.
fn rename_new(from: &OwnedFd, old: &str, to: &OwnedFd, new: &str) -> Result<(), Errno> {
    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(from, old, to, new, AtFlags::empty())?;
            unlinkat(from, old, AtFlags::empty())
        }
        result => result,
    }
}

fn temporary_name() -> Result<String, NotesError> {
    let mut bytes = [0_u8; 12];
    let filled = rustix::io::retry_on_intr(|| {
        rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
    });
    filled.map_err(NotesError::os("read", "the random number generator"))?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{TEMPORARY}{digits}.tmp"))
}
