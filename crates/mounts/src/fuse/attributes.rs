//! Attributes, between the kernel's form and that of the protocol; and changes of them.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, INodeNo, TimeOrNow};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, chmod, chownat,
    utimensat,
};
use rustix::io::Errno;

/// What a call changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) atime: Option<TimeOrNow>,
    pub(super) mtime: Option<TimeOrNow>,
}

impl Wanted {
    /// Changes owner, mode and times, in the order in which a program could do it.
    pub(super) fn apply(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.uid.is_some() || self.gid.is_some() {
            let (uid, gid) = (self.uid.map(Uid::from_raw), self.gid.map(Gid::from_raw));
            match chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH) {
                // The owner has no number in the server's user namespace.
                Err(Errno::INVAL) => return Err(Errno::PERM),
                result => result?,
            }
        }
        if let Some(mode) = self.mode {
            chmod(open_file(fd), Mode::from_raw_mode(mode & 0o7777))?;
        }
        if self.atime.is_some() || self.mtime.is_some() {
            let times =
                Timestamps { last_access: timespec(self.atime), last_modification: timespec(self.mtime) };
            utimensat(fd, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }
}

/// A path by which an open file is opened again, or changed where the call takes no descriptor of this kind.
pub(super) fn open_file(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Timespec { tv_sec: since.as_secs() as i64, tv_nsec: since.subsec_nanos().into() },
            Err(before) => {
                let before = before.duration();
                let seconds = -(before.as_secs() as i64);
                match before.subsec_nanos() {
                    0 => Timespec { tv_sec: seconds, tv_nsec: 0 },
                    nanos => Timespec { tv_sec: seconds - 1, tv_nsec: i64::from(1_000_000_000 - nanos) },
                }
            }
        },
    }
}

fn time(seconds: i64, nanos: u64) -> SystemTime {
    let nanos = Duration::from_nanos(nanos);
    match u64::try_from(seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + nanos,
        Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + nanos,
    }
}

pub(super) fn kind(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::RegularFile | FileType::Unknown => fuser::FileType::RegularFile,
    }
}

pub(super) fn attributes(number: u64, stat: &Stat) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        for (seconds, nanos) in [(-2, 5), (-1, 999_999_999), (0, 0), (7, 3), (-3, 0)] {
            let found = timespec(Some(TimeOrNow::SpecificTime(time(seconds, nanos))));
            assert_eq!((found.tv_sec, found.tv_nsec as u64), (seconds, nanos));
        }
    }
}
