//! A reserve of disk space, so that workspaces can be removed when the disk is full.
//!
//! Removing a workspace writes to the database before it frees anything, so it could not start on a full disk. A file of
//! a few MiB is deleted in that case, and created again when there is enough space.
#![expect(clippy::disallowed_methods, reason = "the public methods run `in_place`")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use agentiso_blocking::in_place;
use agentiso_core::{Code, Failure};
use rustix::fs::{FallocateFlags, fallocate};

use crate::Installation;

const NAME: &str = "reserve";
/// A removal needs a few hundred KiB; running machines may use some of the freed space at the same time.
const BYTES: u64 = 16 << 20;
/// The reserve is created only if at least this much space is free.
const PLENTY: u64 = 16 * BYTES;
/// With less free space than this, database writes may fail.
const SCARCE: u64 = 4 << 20;

impl Installation {
    /// Creates the reserve if it is missing and there is enough space.
    pub fn keep_reserve(&self) {
        in_place(|| self.keep_reserve_blocking());
    }

    fn keep_reserve_blocking(&self) {
        let path = self.paths.home.join(NAME);
        if fs::metadata(&path).is_ok_and(|meta| meta.len() == BYTES) || self.free_bytes() < PLENTY {
            return;
        }
        let made = || -> io::Result<()> {
            let file: File =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
            match fallocate(&file, FallocateFlags::empty(), 0, BYTES) {
                // Without fallocate the space has to be written, with data that the file system cannot compress.
                Err(rustix::io::Errno::OPNOTSUPP) => {
                    let mut noise = blake3::Hasher::new().finalize_xof();
                    io::copy(&mut io::Read::take(&mut noise, BYTES), &mut &file).map(drop)
                }
                other => Ok(other?),
            }
        };
        if let Err(error) = made() {
            tracing::warn!(%error, "could not reserve disk space for removals");
            let _ = fs::remove_file(&path);
        }
    }

    /// Deletes the reserve if the disk is full. Called before anything is removed, and before a daemon starts.
    pub fn make_room(&self) {
        in_place(|| {
            if self.free_bytes() < SCARCE {
                self.release_reserve();
            }
        });
    }

    /// Deletes the reserve if an operation failed because the disk is full. Returns whether to try again.
    pub(crate) fn makes_room_after<T>(&self, done: &Result<T, Failure>) -> bool {
        matches!(done, Err(failure) if failure.code() == Code::DiskFull)
            && in_place(|| self.release_reserve())
    }

    fn release_reserve(&self) -> bool {
        let released = fs::remove_file(self.paths.home.join(NAME)).is_ok();
        if released {
            tracing::warn!("the disk is full: the disk space reserved for removals was released");
        }
        released
    }

    fn free_bytes(&self) -> u64 {
        rustix::fs::statvfs(&self.paths.home).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}
