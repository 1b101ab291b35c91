//! Lists what is below a folder.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, statat, unlinkat};
use rustix::io::Errno;

use super::TEMPORARY;
use super::directory::{Directory, Stat};
use crate::config::NotesConfig;
use crate::error::NotesError;
use crate::limits::MAX_DEPTH;
use crate::path::{FolderPath, NotePath};

/// An entry of a folder.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// Relative to the directory of notes.
    pub(crate) path: String,
    /// Nothing for a folder.
    pub(crate) file: Option<Stat>,
}

/// What a walk left out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Walked {
    /// Symbolic links, pipes and the like, and names that are not allowed.
    pub(crate) skipped: u64,
    /// Folders with temporary files of changes in progress or of killed processes.
    pub(crate) unfinished: Vec<String>,
}

impl Directory {
    /// Calls `each` with the entries of a folder, with those below it if `is_recursive`, in no order. Folders come before
    /// what is in them; `each` says whether to descend. Returns nothing if the folder does not exist.
    pub(crate) fn walk(
        &self,
        config: &NotesConfig,
        from: &FolderPath,
        mut each: impl FnMut(Listed) -> Result<bool, NotesError>,
    ) -> Result<Option<Walked>, NotesError> {
        let mut walked = Walked::default();
        let mut pending = vec![from.clone()];
        let mut is_first = true;
        while let Some(folder) = pending.pop() {
            let Some(opened) = self.folder(folder.as_str())? else {
                if is_first {
                    return Ok(None);
                }
                // Removed meanwhile.
                continue;
            };
            is_first = false;
            self.entries(config, &folder, &opened, &mut walked, &mut |listed| {
                let below = FolderPath::parse(&listed.path).ok().filter(|_| listed.file.is_none());
                if each(listed)? {
                    pending.extend(below.filter(|below| below.as_str().split('/').count() < MAX_DEPTH));
                }
                Ok(())
            })?;
        }
        Ok(Some(walked))
    }

    fn entries(
        &self,
        config: &NotesConfig,
        folder: &FolderPath,
        opened: &OwnedFd,
        walked: &mut Walked,
        each: &mut dyn FnMut(Listed) -> Result<(), NotesError>,
    ) -> Result<(), NotesError> {
        let failed = || self.host(folder.as_str());
        let mut dir = Dir::read_from(opened).map_err(NotesError::os("list", failed()))?;
        while let Some(entry) = dir.read() {
            let entry = entry.map_err(NotesError::os("list", failed()))?;
            let Ok(name) = entry.file_name().to_str() else {
                walked.skipped += 1;
                continue;
            };
            if name.starts_with('.') {
                if name.starts_with(TEMPORARY)
                    && walked.unfinished.last().map(String::as_str) != Some(folder.as_str())
                {
                    walked.unfinished.push(folder.as_str().to_owned());
                }
                continue;
            }
            let path = folder.join(name);
            if NotePath::parse(&path).is_err() {
                walked.skipped += 1;
                continue;
            }
            let stat = match statat(opened, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(NotesError::os("read", self.host(&path))(error)),
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if config.exclude_dirs.iter().any(|excluded| excluded == name) => {}
                FileType::Directory => each(Listed { path, file: None })?,
                FileType::RegularFile => each(Listed { path, file: Some(Stat::of(&stat)) })?,
                _ => walked.skipped += 1,
            }
        }
        Ok(())
    }

    /// Removes temporary files that a killed process has left in a folder. The caller holds the write lock, so no file of
    /// that name is in use.
    pub(crate) fn remove_leftovers(&self, folder: &str) -> Result<(), NotesError> {
        let Some(opened) = self.folder(folder)? else { return Ok(()) };
        let mut dir = Dir::read_from(&opened).map_err(NotesError::os("list", self.host(folder)))?;
        while let Some(entry) = dir.read() {
            let entry = entry.map_err(NotesError::os("list", self.host(folder)))?;
            let name = entry.file_name();
            let is_ours =
                name.to_str().is_ok_and(|name| name.starts_with(TEMPORARY) && name.ends_with(".tmp"));
            if is_ours {
                match unlinkat(&opened, name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(NotesError::os("remove", self.host(folder))(error)),
                }
            }
        }
        Ok(())
    }
}
