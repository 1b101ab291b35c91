//! Calls that find, make, remove and rename names.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::PoisonError;

use fuser::{FileAttr, Request};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, chownat, fstat, linkat, mkdirat, mknodat,
    openat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::attributes::{attributes, open_file};
use super::filesystem::Overlaid;
use crate::renames::move_directory;

const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Overlaid {
    /// Finds a name and counts the lookup.
    pub(super) fn find(&self, parent: u64, name: &[u8]) -> Result<FileAttr, Errno> {
        let directory = self.nodes.get(parent)?;
        let fd = openat(directory.as_fd(), name, PATH, Mode::empty())?;
        let stat = fstat(&fd)?;
        Ok(self.known(parent, name, fd, &stat))
    }

    fn known(&self, parent: u64, name: &[u8], fd: OwnedFd, stat: &Stat) -> FileAttr {
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let is_shared = is_file && stat.st_nlink > 1 && !self.is_upper(parent, name);
        let number = self.nodes.add(parent, name, fd, stat, is_shared);
        attributes(number, stat)
    }

    /// Whether a file is in the writable layer, where its names lead to one file.
    fn is_upper(&self, parent: u64, name: &[u8]) -> bool {
        let mut path = self.nodes.path(parent);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        let Some(upper) = &self.upper else { return false };
        // Not compared by inode: the overlay shows the number that the file had in the lower layer.
        let found = statat(upper, &*path, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
    }

    /// Gives a new file to who asked for it, if the server may: it does when root serves.
    pub(super) fn give(
        &self,
        request: &Request,
        directory: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<(), Errno> {
        if !self.gives_files || (request.uid(), request.gid()) == self.owner {
            return Ok(());
        }
        let inherits = fstat(directory)?.st_mode & 0o2000 != 0;
        let gid = (!inherits).then(|| Gid::from_raw(request.gid()));
        chownat(directory, name, Some(Uid::from_raw(request.uid())), gid, AtFlags::SYMLINK_NOFOLLOW)
    }

    pub(super) fn make_directory(
        &self,
        request: &Request,
        parent: u64,
        name: &[u8],
        mode: u32,
    ) -> Result<FileAttr, Errno> {
        let directory = self.nodes.get(parent)?;
        mkdirat(directory.as_fd(), name, Mode::from_raw_mode(mode & 0o7777))?;
        self.give(request, directory.as_fd(), name)?;
        self.find(parent, name)
    }

    pub(super) fn make_node(
        &self,
        request: &Request,
        parent: u64,
        name: &[u8],
        mode: u32,
        device: u32,
    ) -> Result<FileAttr, Errno> {
        let directory = self.nodes.get(parent)?;
        let kind = FileType::from_raw_mode(mode);
        mknodat(directory.as_fd(), name, kind, Mode::from_raw_mode(mode & 0o7777), device.into())?;
        self.give(request, directory.as_fd(), name)?;
        self.find(parent, name)
    }

    pub(super) fn make_link(
        &self,
        request: &Request,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> Result<FileAttr, Errno> {
        let directory = self.nodes.get(parent)?;
        symlinkat(target, directory.as_fd(), name)?;
        self.give(request, directory.as_fd(), name)?;
        self.find(parent, name)
    }

    pub(super) fn remove(&self, parent: u64, name: &[u8], flags: AtFlags) -> Result<(), Errno> {
        let directory = self.nodes.get(parent)?;
        let stat = statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        self.nodes.keep(stat.st_ino, parent, name);
        unlinkat(directory.as_fd(), name, flags)?;
        self.nodes.unname(parent, name);
        Ok(())
    }

    /// Adds a name to a file.
    pub(super) fn add_name(&self, number: u64, parent: u64, name: &[u8]) -> Result<FileAttr, Errno> {
        let (file, directory) = (self.nodes.get(number)?, self.nodes.get(parent)?);
        linkat(rustix::fs::CWD, open_file(file.as_fd()), directory.as_fd(), name, AtFlags::SYMLINK_FOLLOW)?;
        let stat = statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        self.nodes.linked(number, stat.st_ino);
        Ok(attributes(number, &stat))
    }

    pub(super) fn change_name(
        &self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let (source, target) = (self.nodes.get(from.0)?, self.nodes.get(to.0)?);
        let stat = statat(source.as_fd(), from.1, AtFlags::SYMLINK_NOFOLLOW)?;
        let replaced = match statat(target.as_fd(), to.1, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(replaced) => Some(replaced),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error),
        };
        if let Some(replaced) = &replaced {
            self.nodes.keep(replaced.st_ino, to.0, to.1);
        }
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        match renameat_with(source.as_fd(), from.1, target.as_fd(), to.1, flags) {
            Err(Errno::XDEV) if is_directory => {
                // Nothing else may use the directories while they are replaced by others.
                let _alone = self.gate_of_moves.write().unwrap_or_else(PoisonError::into_inner);
                move_directory(source.as_fd(), from.1, target.as_fd(), to.1, flags)?;
                self.nodes.moved(stat.st_ino, to);
            }
            result => {
                result?;
                // Both names of one file: nothing was renamed.
                if replaced.is_some_and(|replaced| replaced.st_ino == stat.st_ino && !is_directory) {
                    return Ok(());
                }
                if flags.contains(RenameFlags::EXCHANGE)
                    && let Some(replaced) = replaced
                {
                    self.nodes.renamed(replaced.st_ino, to, from);
                } else {
                    self.nodes.unname(to.0, to.1);
                }
                self.nodes.renamed(stat.st_ino, from, to);
            }
        }
        Ok(())
    }
}
