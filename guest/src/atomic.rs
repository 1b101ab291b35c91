//! Replacing a file at one stroke: readers see the old content or the new, and a failure leaves the old.

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
/// Files up to this size are within one block of any file system.
const IN_PLACE: i64 = 1024;
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A new file under a temporary name, removed again unless it is put in place.
pub(crate) struct Temporary<D: AsFd> {
    directory: D,
    name: String,
    fd: OwnedFd,
    placed: bool,
}

impl<D: AsFd> Temporary<D> {
    /// Makes an empty file that only the agent's user may open.
    pub(crate) fn create(directory: D) -> Outcome<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let name = format!(".agentiso-{:x}-{number:x}.tmp", std::process::id());
            match rustix::fs::openat(&directory, &name, flags, Mode::from_raw_mode(0o600)) {
                Ok(fd) => return Ok(Self { directory, name, fd, placed: false }),
                // Left behind by a machine that was stopped hard; the next number is free.
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(crate::error::refused("making a temporary file", errno)),
            }
        }
    }

    /// Gives the file its name, in place of whatever non-directory has it.
    pub(crate) fn place(mut self, name: &[u8]) -> Outcome<()> {
        rustix::fs::renameat(&self.directory, &self.name, &self.directory, name)
            .during(|| format!("putting {} in place", shown(name)))?;
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
            // Nothing more can be done about a directory that does not let go of it.
            let _ = rustix::fs::unlinkat(&self.directory, &self.name, rustix::fs::AtFlags::empty());
        }
    }
}

/// Replaces the content of a file, or makes it, with what `fill` writes. Owner and, unless given, mode stay.
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

/// Writes a small file of the agent's own making, before any command could read it.
///
/// A small file is overwritten where it is: every clone does this on its way to the first command, and a new file and
/// a rename would cost it several times as much.
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

/// Writes everything.
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
            // Only an agent that is not root meets this. A stranger's file must not run as its new owner.
            Err(Errno::PERM) => bits &= !SET_ID_BITS,
            result => result?,
        }
    }
    rustix::fs::fchmod(fd, Mode::from_raw_mode(bits))
}
