//! Owner, mode, times and extended attributes of tree entries.

use std::os::fd::BorrowedFd;

use agentiso_proto::TreeEntry;
use rustix::{
    fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags},
    io::Errno,
};

use crate::error::{During, Outcome, invalid, shown};

/// Limit on the names and values of all extended attributes of one file.
const MAX_XATTRS: usize = 64 * 1024;
const NANOS: i64 = 1_000_000_000;
/// Tells utimensat to leave a time unchanged.
const UTIME_OMIT: i64 = 0x3fff_fffe;

/// Reads the extended attributes of an open file.
pub(crate) fn read_xattrs(fd: BorrowedFd<'_>, path: &[u8]) -> Outcome<Vec<(Vec<u8>, Vec<u8>)>> {
    let reading = || format!("reading the extended attributes of {}", shown(path));
    let mut names = Vec::new();
    let len = match rustix::fs::flistxattr_query(fd) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Ok(len) => len,
        Err(errno) => return Err(crate::error::refused(reading(), errno)),
    };
    names.resize(len, 0);
    let len = rustix::fs::flistxattr(fd, &mut names[..]).during(reading)?;
    names.truncate(len);
    let mut xattrs = Vec::new();
    let mut total = 0;
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; MAX_XATTRS];
        match rustix::fs::fgetxattr(fd, name, &mut value[..]) {
            Ok(len) => value.truncate(len),
            // Removed in the meantime, or not readable for the agent's user.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS) => continue,
            Err(errno) => return Err(crate::error::refused(reading(), errno)),
        }
        value.shrink_to_fit();
        total += name.len() + value.len();
        if total > MAX_XATTRS {
            return Err(invalid(format!(
                "{} has more than {MAX_XATTRS} bytes of extended attributes",
                shown(path)
            )));
        }
        xattrs.push((name.to_vec(), value));
    }
    Ok(xattrs)
}

/// Sets the metadata of an open file or directory. The owner comes first, since changing it clears other bits.
pub(crate) fn apply(fd: BorrowedFd<'_>, entry: &TreeEntry, owners: bool) -> Outcome<()> {
    let setting = || format!("setting the owner, mode or time of {}", shown(&entry.path));
    if owners {
        let (uid, gid) = owner(entry)?;
        rustix::fs::fchown(fd, Some(uid), Some(gid)).during(setting)?;
    }
    rustix::fs::fchmod(fd, mode(entry)).during(setting)?;
    apply_xattrs(fd, entry)?;
    rustix::fs::futimens(fd, &times(entry)).during(setting)
}

/// Sets owner and time of an entry that cannot be opened. Does not follow links.
pub(crate) fn apply_unopened(
    parent: BorrowedFd<'_>,
    name: &[u8],
    entry: &TreeEntry,
    owners: bool,
) -> Outcome<()> {
    let setting = || format!("setting the owner or time of {}", shown(&entry.path));
    if owners {
        let (uid, gid) = owner(entry)?;
        rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).during(setting)?;
    }
    rustix::fs::utimensat(parent, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW).during(setting)
}

fn apply_xattrs(fd: BorrowedFd<'_>, entry: &TreeEntry) -> Outcome<()> {
    let may_lack = !rustix::process::geteuid().is_root();
    for (name, value) in &entry.xattrs {
        if name.contains(&0) {
            return Err(invalid("the name of an extended attribute contains a NUL"));
        }
        match rustix::fs::fsetxattr(fd, name.as_slice(), value, XattrFlags::empty()) {
            // This file system does not support extended attributes.
            Err(Errno::OPNOTSUPP) => {}
            Err(Errno::PERM) if may_lack => {}
            result => result.during(|| format!("setting {} of {}", shown(name), shown(&entry.path)))?,
        }
    }
    Ok(())
}

/// Rejects 2^32-1, which means "unchanged" to the kernel.
fn owner(entry: &TreeEntry) -> Outcome<(Uid, Gid)> {
    if entry.uid == u32::MAX || entry.gid == u32::MAX {
        return Err(invalid(format!("{} has an invalid owner", shown(&entry.path))));
    }
    Ok((Uid::from_raw(entry.uid), Gid::from_raw(entry.gid)))
}

fn mode(entry: &TreeEntry) -> Mode {
    Mode::from_raw_mode(entry.mode & 0o7777)
}

fn times(entry: &TreeEntry) -> Timestamps {
    let modified = Timespec {
        tv_sec: entry.modified_ns.div_euclid(NANOS),
        tv_nsec: entry.modified_ns.rem_euclid(NANOS),
    };
    Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: modified }
}
