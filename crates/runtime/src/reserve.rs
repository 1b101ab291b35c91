//! Room that is kept for removing things when the disk is full.
//!
//! Removing a workspace writes to the database before it frees anything, so on a full disk it could not even begin. A
//! file of a few MiB is given up then, and made again as soon as there is plenty of room.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use agentiso_core::{Code, Failure};
use rustix::fs::{FallocateFlags, fallocate};

use crate::Installation;

const NAME: &str = "reserve";
/// Removing takes a few hundred KiB; machines that write meanwhile take their part.
const BYTES: u64 = 16 << 20;
/// The reserve is made only where it is a small part of what is free.
const PLENTY: u64 = 16 * BYTES;
/// With less than this, changes of the database may fail.
const SCARCE: u64 = 4 << 20;

impl Installation {
    /// Makes the reserve if it is missing and there is plenty of room.
    pub fn keep_reserve(&self) {
        let path = self.paths.home.join(NAME);
        if fs::metadata(&path).is_ok_and(|meta| meta.len() == BYTES) || self.free_bytes() < PLENTY {
            return;
        }
        let made = || -> io::Result<()> {
            let file: File =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
            match fallocate(&file, FallocateFlags::empty(), 0, BYTES) {
                // Where space cannot be had without writing, what is written must not be compressed away.
                Err(rustix::io::Errno::OPNOTSUPP) => {
                    let mut noise = blake3::Hasher::new().finalize_xof();
                    io::copy(&mut io::Read::take(&mut noise, BYTES), &mut &file).map(drop)
                }
                other => Ok(other?),
            }
        };
        if let Err(error) = made() {
            tracing::warn!(%error, "could not reserve room for removing things");
            let _ = fs::remove_file(&path);
        }
    }

    /// Gives the reserve up if the disk is full. Called before anything is removed, and before a daemon starts.
    pub fn make_room(&self) {
        if self.free_bytes() < SCARCE {
            self.release_reserve();
        }
    }

    /// Gives the reserve up if something failed because the disk is full. Returns whether it is worth trying again.
    pub(crate) fn makes_room_after<T>(&self, done: &Result<T, Failure>) -> bool {
        matches!(done, Err(failure) if failure.code() == Code::DiskFull) && self.release_reserve()
    }

    fn release_reserve(&self) -> bool {
        let released = fs::remove_file(self.paths.home.join(NAME)).is_ok();
        if released {
            tracing::warn!("the disk is full: the room kept for removing things was given up");
        }
        released
    }

    fn free_bytes(&self) -> u64 {
        rustix::fs::statvfs(&self.paths.home).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}
