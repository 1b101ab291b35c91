//! Atomic replacement of files: readers see the old or the new content, and a failure keeps the old content.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{FileType, Gid, Mode, OFlags, Stat, Uid},
    io::Errno,
};

use crate::{
    error::{During, Outcome, invalid, shown},
    paths::{self, Located, file_type, locate_through_links},
};

const DEFAULT_MODE: u32 = 0o644;
const SET_ID_BITS: u32 = 0o6000;
/// Files up to this size fit in one block of any file system, so they are overwritten in place.
const IN_PLACE: i64 = 1024;
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A new file under a temporary name. It is removed on drop unless [`Self::place`] renamed it.
pub(crate) struct Temporary<D: AsFd> {
    directory: D,
    name: String,
    fd: OwnedFd,
    placed: bool,
}

impl<D: AsFd> Temporary<D> {
    /// Creates an empty file that only the agent's user can open.
    pub(crate) fn create(directory: D) -> Outcome<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let name = format!(".agentiso-{:x}-{number:x}.tmp", std::process::id());
            match rustix::fs::openat(&directory, &name, flags, Mode::from_raw_mode(0o600)) {
                Ok(fd) => return Ok(Self { directory, name, fd, placed: false }),
                // Left over from a machine that was stopped hard. Try the next number.
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(crate::error::refused("creating a temporary file", errno)),
            }
        }
    }

    /// Renames the file to `name`, replacing any non-directory of that name.
    pub(crate) fn place(mut self, name: &[u8]) -> Outcome<()> {
        rustix::fs::renameat(&self.directory, &self.name, &self.directory, name)
            .during(|| format!("replacing {}", shown(name)))?;
        self.placed = true;
        Ok(())
    }
}

impl<D: AsFd> AsFd for Temporary<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl<D: AsFd> Drop for Temporary<D> {
    fn drop(&mut self) {
        if !self.placed {
            // Best effort: there is nothing left to try.
            let _ = rustix::fs::unlinkat(&self.directory, &self.name, rustix::fs::AtFlags::empty());
        }
    }
}

/// Replaces or creates a file with the content that `fill` writes. Keeps the owner and, unless one is given, the mode.
pub(crate) fn replace<T>(
    located: &Located,
    mode: Option<u32>,
    fill: impl FnOnce(BorrowedFd<'_>) -> Outcome<T>,
) -> Outcome<T> {
    let old = paths::status_of(located)?;
    if old.as_ref().is_some_and(|old| file_type(old) != FileType::RegularFile) {
        return Err(invalid(format!("{} is not a regular file", shown(&located.name))));
    }
    let temporary = Temporary::create(located.directory.as_fd())?;
    let value = fill(temporary.as_fd())?;
    dress(temporary.as_fd(), old.as_ref(), mode)
        .during(|| format!("setting the mode of {}", shown(&located.name)))?;
    temporary.place(&located.name)?;
    Ok(value)
}

/// Writes a small file before any command can read it.
///
/// A file that already exists is overwritten in place: every clone does this before its first command, and a new file
/// plus a rename would be several times slower.
pub(crate) fn rewrite(path: &[u8], content: &[u8], mode: u32) -> Outcome<()> {
    let located = locate_through_links(path, false)?;
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::openat(&located.directory, &*located.name, flags, Mode::empty())
        && let Ok(stat) = rustix::fs::fstat(&file)
        && file_type(&stat) == FileType::RegularFile
        && stat.st_nlink == 1
        && stat.st_size <= IN_PLACE
        && content.len() as i64 <= IN_PLACE
    {
        let written = write_all(file.as_fd(), content).and_then(|()| match content.len() as u64 {
            length if length < stat.st_size as u64 => rustix::fs::ftruncate(&file, length),
            _ => Ok(()),
        });
        return written.during(|| format!("writing {}", shown(path)));
    }
    replace(&located, Some(mode), |fd| write_all(fd, content).during(|| format!("writing {}", shown(path))))
}

/// Writes all bytes, retrying after short writes.
pub(crate) fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn dress(fd: BorrowedFd<'_>, old: Option<&Stat>, mode: Option<u32>) -> rustix::io::Result<()> {
    let mut bits = mode.or(old.map(|old| old.st_mode & 0o7777)).unwrap_or(DEFAULT_MODE);
    if let Some(old) = old {
        let own = rustix::fs::fchown(fd, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
        match own {
            // Only happens if the agent is not root. Drop the set-id bits: the file must not run as its new owner.
            Err(Errno::PERM) => bits &= !SET_ID_BITS,
            result => result?,
        }
    }
    rustix::fs::fchmod(fd, Mode::from_raw_mode(bits))
}
