//! Tracking which pages of a guest are written while it runs.
//!
//! The kernel can write-protect pages and remove the protection by itself at the first write (`UFFD_FEATURE_WP_ASYNC`,
//! since Linux 6.7). A page without protection was written. Querying these pages and protecting them again is one atomic
//! step (`PAGEMAP_SCAN`), so no write is missed.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::inject::open_userfaultfd;

const API: u64 = 0xaa;
const WP_ASYNC: u64 = 1 << 15;
const MODE_WRITE_PROTECT: u64 = 1 << 1;
/// `_IOWR(0xaa, 0x3f, struct uffdio_api)`.
const UFFDIO_API: libc::Ioctl = 0xc018_aa3f;
/// `_IOWR(0xaa, 0x00, struct uffdio_register)`.
const UFFDIO_REGISTER: libc::Ioctl = 0xc020_aa00;
/// `_IOR(0xaa, 0x01, struct uffdio_range)`.
const UFFDIO_UNREGISTER: libc::Ioctl = 0x8010_aa01;
/// The link target of a userfaultfd in `/proc/PID/fd`.
const LINK: &str = "anon_inode:[userfaultfd]";

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Range {
    start: u64,
    length: u64,
}

#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

/// Tracks writes until it is dropped.
#[derive(Debug)]
pub(super) struct WriteTracker {
    descriptor: OwnedFd,
    start: u64,
    length: u64,
}

impl WriteTracker {
    /// Starts to track a mapping of a process. Fails on kernels without support, and if tracing is not permitted.
    pub fn start(pid: i32, start: u64, length: u64) -> io::Result<Self> {
        let descriptor = descriptor_of(pid)?;
        let mut api = Api { api: API, features: WP_ASYNC, ioctls: 0 };
        match request(&descriptor, UFFDIO_API, &mut api) {
            // A descriptor from an earlier copy is initialised already.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            other => other?,
        }
        let mut register = Register { range: Range { start, length }, mode: MODE_WRITE_PROTECT, ioctls: 0 };
        request(&descriptor, UFFDIO_REGISTER, &mut register)?;
        Ok(Self { descriptor, start, length })
    }
}

impl Drop for WriteTracker {
    fn drop(&mut self) {
        // Removes the protection. Fails if the process has ended.
        let mut range = Range { start: self.start, length: self.length };
        let _ = request(&self.descriptor, UFFDIO_UNREGISTER, &mut range);
    }
}

/// The userfaultfd of a process, from an earlier copy or new.
fn descriptor_of(pid: i32) -> io::Result<OwnedFd> {
    let number = match find(pid)? {
        Some(number) => number,
        None => open_userfaultfd(pid)?,
    };
    let process = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let descriptor = pidfd_getfd(process, number, PidfdGetfdFlags::empty())?;
    let link = fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))?;
    if link.to_str() != Some(LINK) {
        return Err(io::Error::other("QEMU changed its descriptors"));
    }
    Ok(descriptor)
}

fn find(pid: i32) -> io::Result<Option<RawFd>> {
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        if fs::read_link(entry.path()).is_ok_and(|link| link.to_str() == Some(LINK)) {
            return Ok(entry.file_name().to_str().and_then(|name| name.parse().ok()));
        }
    }
    Ok(None)
}

fn request<T>(descriptor: &impl AsFd, what: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: every request above is called with the structure whose size is part of its number.
    let done = unsafe { libc::ioctl(descriptor.as_fd().as_raw_fd(), what, std::ptr::from_mut(argument)) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
