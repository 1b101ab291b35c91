//! Limits on what a guest may write to the host's disk in one download.
//!
//! The guest decides what it sends, so the host counts: bytes, entries (empty ones cost inodes), and how much room the
//! file system still has. The download fails before any of them is exceeded, and what was written is removed.

use std::io;
use std::os::fd::OwnedFd;

/// The most one download may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of content.
    pub bytes: u64,
    /// Files, directories and links.
    pub files: u64,
    /// Bytes that must stay free on the file system it is written to.
    pub reserve: u64,
}

/// How often the free room is looked at, in bytes written.
const LOOK_EVERY: u64 = 16 << 20;
/// The size an entry counts for when free space is estimated: an inode and a name.
const ENTRY: u64 = 4096;

/// The remaining budget of a download.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Limits,
    bytes: u64,
    files: u64,
    /// Something on the file system it is written to.
    place: OwnedFd,
    /// Written since the free room was looked at; so much that it is looked at first.
    unseen: u64,
}

impl Budget {
    pub fn new(limits: Limits, place: OwnedFd) -> Self {
        Self { limits, bytes: 0, files: 0, place, unseen: LOOK_EVERY }
    }

    /// Counts bytes that are about to be written; an error if they exceed a limit.
    pub fn bytes(&mut self, count: u64) -> io::Result<()> {
        self.bytes = self.bytes.saturating_add(count);
        if self.bytes > self.limits.bytes {
            return Err(over(format!(
                "the guest sends more than the {} MiB a download may have; see daemon.download_max_gb",
                self.limits.bytes >> 20
            )));
        }
        self.room(count)
    }

    /// Before another entry is made.
    pub fn entry(&mut self) -> io::Result<()> {
        self.files += 1;
        if self.files > self.limits.files {
            return Err(over(format!(
                "the guest sends more than the {} files a download may have; see daemon.download_max_files",
                self.limits.files
            )));
        }
        self.room(ENTRY)
    }

    fn room(&mut self, count: u64) -> io::Result<()> {
        self.unseen = self.unseen.saturating_add(count);
        if self.unseen < LOOK_EVERY {
            return Ok(());
        }
        let about = rustix::fs::fstatvfs(&self.place)?;
        let free = about.f_bavail.saturating_mul(about.f_frsize);
        // What is written until the next check must fit, too.
        if free < self.limits.reserve.saturating_add(count.max(LOOK_EVERY)) {
            let message = format!(
                "the host has {} MiB free, and a download must leave {}; see daemon.download_reserve_mb",
                free >> 20,
                self.limits.reserve >> 20
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        self.unseen = 0;
        Ok(())
    }
}

fn over(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(bytes: u64, files: u64, reserve: u64) -> Budget {
        let place = std::fs::File::open("/").unwrap().into();
        Budget::new(Limits { bytes, files, reserve }, place)
    }

    #[test]
    fn bytes_and_files_are_counted_to_the_last() {
        let mut budget = budget(10, 2, 0);
        budget.bytes(10).unwrap();
        assert_eq!(budget.bytes(1).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        budget.entry().unwrap();
        budget.entry().unwrap();
        assert_eq!(budget.entry().unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_disk_is_never_filled_to_its_end() {
        let mut budget = budget(u64::MAX, u64::MAX, u64::MAX / 2);
        assert_eq!(budget.bytes(1).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(budget.entry().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
