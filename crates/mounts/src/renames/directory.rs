//! Moves a directory within an overlay that refuses to rename it.
//!
//! ```text
//! links of everything under a staging name ──► rename to the new name ──► the old directory is emptied and removed
//!     │ fails or is killed: the old directory      │                          │ killed: both are there, with the
//!     │ is whole; an ingest skips the staging      └ atomic                   │ same files
//! ```
//!
//! A link copies a file of the lower layer up first, by reflink where the file system can. Files that are open stay the
//! same files. The new directory is complete when it appears. What is put into the old one meanwhile is moved after it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
    fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fstat, futimens, linkat, mkdirat, openat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

const STAGING: &[u8] = b".avfs-moving-";
const DIGITS: usize = 32;
/// How often a directory is emptied into which others keep putting files.
const ATTEMPTS: usize = 16;
/// How deep the directories are that are moved. Deeper ones are left to the caller to copy; each level is an open directory.
const DEPTH: usize = 100;
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Whether a name is that of a directory in the middle of a move. It belongs to nobody, even after a crash.
pub(crate) fn is_staging(name: &[u8]) -> bool {
    name.strip_prefix(STAGING)
        .is_some_and(|rest| rest.len() == DIGITS && rest.iter().all(u8::is_ascii_hexdigit))
}

/// Renames a directory as rename(2) does, also where an overlay answers `EXDEV`. Both directories are on the same mount.
pub fn move_directory(
    from: BorrowedFd<'_>,
    old: &[u8],
    to: BorrowedFd<'_>,
    new: &[u8],
    flags: RenameFlags,
) -> Result<(), Errno> {
    match renameat_with(from, old, to, new, flags) {
        Err(Errno::XDEV) if flags.difference(RenameFlags::NOREPLACE).is_empty() => {}
        result => return result,
    }
    check_target(to, new, flags)?;
    let source = openat(from, old, OPEN, Mode::empty())?;
    let staging = staging_name()?;
    mkdirat(to, &*staging, Mode::RWXU)?;
    let prepared = openat(to, &*staging, OPEN, Mode::empty())
        .and_then(|target| link_all(source.as_fd(), target.as_fd(), DEPTH))
        .and_then(|()| renameat_with(to, &*staging, to, new, flags));
    if let Err(error) = prepared {
        // The old directory is as it was, apart from being copied up.
        let _ =
            openat(to, &*staging, OPEN, Mode::empty()).and_then(|target| remove_all(target.as_fd(), DEPTH));
        let _ = unlinkat(to, &*staging, AtFlags::REMOVEDIR);
        // A file that may not be linked leaves the caller to copy, as it would without us.
        return Err(if matches!(error, Errno::PERM | Errno::MLINK) { Errno::XDEV } else { error });
    }
    // The rename has happened; what remains of the old directory is a second set of names.
    let target = openat(to, new, OPEN, Mode::empty())?;
    empty_into(source.as_fd(), target.as_fd(), DEPTH, &|| unlinkat(from, old, AtFlags::REMOVEDIR))
}

/// What rename(2) would say about the new name.
fn check_target(to: BorrowedFd<'_>, new: &[u8], flags: RenameFlags) -> Result<(), Errno> {
    let stat = match statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    if flags.contains(RenameFlags::NOREPLACE) {
        return Err(Errno::EXIST);
    }
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Errno::NOTDIR);
    }
    if names(openat(to, new, OPEN, Mode::empty())?.as_fd())?.is_empty() {
        Ok(())
    } else {
        Err(Errno::NOTEMPTY)
    }
}

fn staging_name() -> Result<Vec<u8>, Errno> {
    let mut bytes = [0_u8; DIGITS / 2];
    rustix::io::retry_on_intr(|| {
        rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
    })?;
    let mut name = STAGING.to_vec();
    name.extend(bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()));
    Ok(name)
}

/// Names in a directory and whether each is a directory.
fn names(directory: BorrowedFd<'_>) -> Result<Vec<(Vec<u8>, bool)>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => {
                let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            }
            known => known == FileType::Directory,
        };
        found.push((name.to_vec(), is_directory));
    }
    Ok(found)
}

/// Links everything in a directory into a new one, which then gets the same metadata.
fn link_all(source: BorrowedFd<'_>, target: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
    let depth = depth.checked_sub(1).ok_or(Errno::XDEV)?;
    let stat = fstat(source)?;
    for (name, is_directory) in names(source)? {
        if is_directory {
            let below = openat(source, &*name, OPEN, Mode::empty())?;
            mkdirat(target, &*name, Mode::RWXU)?;
            link_all(below.as_fd(), openat(target, &*name, OPEN, Mode::empty())?.as_fd(), depth)?;
        } else {
            linkat(source, &*name, target, &*name, AtFlags::empty())?;
        }
    }
    copy_metadata(source, target, &stat)
}

fn copy_metadata(source: BorrowedFd<'_>, target: BorrowedFd<'_>, stat: &Stat) -> Result<(), Errno> {
    let made = fstat(target)?;
    if (made.st_uid, made.st_gid) != (stat.st_uid, stat.st_gid) {
        fchown(target, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
    }
    copy_attributes(source, target)?;
    fchmod(target, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    let time = |seconds: i64, nanos: u64| Timespec { tv_sec: seconds, tv_nsec: nanos as i64 };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    };
    futimens(target, &times)
}

fn copy_attributes(source: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut list = vec![0_u8; 64 << 10];
    let len = match flistxattr(source, &mut list[..]) {
        Ok(len) => len,
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(error) => return Err(error),
    };
    for name in list.get(..len).unwrap_or_default().split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0_u8; 64 << 10];
        let len = fgetxattr(source, name, &mut value[..])?;
        match fsetxattr(target, name, value.get(..len).unwrap_or_default(), XattrFlags::empty()) {
            // Labels of the host are given by the host.
            Err(Errno::PERM | Errno::OPNOTSUPP) if !name.starts_with(b"user.") => {}
            result => result?,
        }
    }
    Ok(())
}

/// Removes the old names and then the directory. What has no new name was put there meanwhile, and is moved.
fn empty_into(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    depth: usize,
    remove: &dyn Fn() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let depth = depth.checked_sub(1).ok_or(Errno::NOTEMPTY)?;
    // A directory that may not be written to can be renamed all the same.
    let mode = fstat(source)?.st_mode & 0o7777;
    if mode & 0o300 != 0o300 {
        fchmod(source, Mode::from_raw_mode(mode | 0o300))?;
    }
    for _ in 0..ATTEMPTS {
        for (name, is_directory) in names(source)? {
            let is_there = match statat(target, &*name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => true,
                Err(Errno::NOENT) => false,
                Err(error) => return Err(error),
            };
            match (is_there, is_directory) {
                (true, true) => {
                    let below: OwnedFd = openat(source, &*name, OPEN, Mode::empty())?;
                    let new = openat(target, &*name, OPEN, Mode::empty())?;
                    let remove = || unlinkat(source, &*name, AtFlags::REMOVEDIR);
                    empty_into(below.as_fd(), new.as_fd(), depth, &remove)?;
                }
                (true, false) => gone_is_fine(unlinkat(source, &*name, AtFlags::empty()))?,
                (false, _) => {
                    gone_is_fine(renameat_with(source, &*name, target, &*name, RenameFlags::NOREPLACE))?;
                }
            }
        }
        match remove() {
            Err(Errno::NOTEMPTY) => {}
            result => return result,
        }
    }
    Err(Errno::NOTEMPTY)
}

fn gone_is_fine(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn remove_all(directory: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
    let depth = depth.checked_sub(1).ok_or(Errno::NOTEMPTY)?;
    fchmod(directory, Mode::RWXU)?;
    for (name, is_directory) in names(directory)? {
        if is_directory {
            remove_all(openat(directory, &*name, OPEN, Mode::empty())?.as_fd(), depth)?;
            unlinkat(directory, &*name, AtFlags::REMOVEDIR)?;
        } else {
            unlinkat(directory, &*name, AtFlags::empty())?;
        }
    }
    Ok(())
}
