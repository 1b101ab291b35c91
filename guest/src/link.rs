//! The byte stream to the host. Many threads write whole frames, one thread reads.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr,
    sync::Mutex,
};

use rustix::{
    event::{PollFd, PollFlags},
    fs::OFlags,
    io::{Errno, Result},
};

use crate::sync::locked;

/// The number of a session on the link. A session that has ended can no longer send.
pub(crate) type Epoch = u64;

/// The session has ended, so there is nobody to send to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Ended;

/// The transport below the stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    /// A socket: end of file is final.
    Socket,
    /// A virtio port: end of file means only that no host is attached at the moment.
    Port,
}

/// The result of a read.
pub(crate) enum Arrived {
    /// Number of bytes read.
    Bytes(usize),
    /// No host is attached; use [`Link::wait_for_host`].
    Nobody,
    /// The link is closed for good.
    Closed,
}

pub(crate) struct Link {
    fd: OwnedFd,
    transport: Transport,
    epoch: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    last: Epoch,
    open: bool,
}

impl Link {
    pub(crate) fn new(fd: OwnedFd, transport: Transport) -> Self {
        Self { fd, transport, epoch: Mutex::default() }
    }

    /// Starts a session. Its Welcome is sent first, and no frame of an earlier session is sent after it.
    pub(crate) fn begin(&self, welcome: &[u8]) -> Epoch {
        let mut current = locked(&self.epoch);
        current.last += 1;
        current.open = write_all(self.fd.as_fd(), welcome).is_ok();
        current.last
    }

    /// Ends the current session, if any.
    pub(crate) fn end(&self) {
        locked(&self.epoch).open = false;
    }

    /// Sends complete frames of a session in one write.
    pub(crate) fn send(&self, epoch: Epoch, frames: &[u8]) -> std::result::Result<(), Ended> {
        let mut current = locked(&self.epoch);
        if !current.open || current.last != epoch {
            return Err(Ended);
        }
        write_all(self.fd.as_fd(), frames).map_err(|_| {
            current.open = false;
            Ended
        })
    }

    /// Blocks until bytes arrive from the host.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Arrived {
        loop {
            match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(0) if self.transport == Transport::Port => return Arrived::Nobody,
                Ok(0) => return Arrived::Closed,
                Ok(count) => return Arrived::Bytes(count),
                Err(Errno::INTR) => {}
                Err(_) => return Arrived::Closed,
            }
        }
    }

    /// Waits until a host may have attached to the port.
    ///
    /// A port without a host is always readable, so `poll` cannot wait for one, but the kernel sends SIGIO when a host
    /// attaches. The signal is blocked in all threads, so it stays pending if it arrives before the wait.
    pub(crate) fn wait_for_host(&self) {
        let timeout = libc::timespec { tv_sec: 1, tv_nsec: 0 };
        // SAFETY: sigemptyset initialises the set before use, and all pointers are to live locals.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGIO);
            libc::sigtimedwait(&set, ptr::null_mut(), &timeout);
        }
    }

    /// Enables or disables SIGIO for a host that attaches to or detaches from the port.
    pub(crate) fn watch_for_host(&self, on: bool) -> Result<()> {
        if on {
            let owner = rustix::process::getpid().as_raw_nonzero().get();
            // SAFETY: F_SETOWN takes a process id and accesses no memory.
            unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&self.fd), libc::F_SETOWN, owner) };
        }
        let flags = rustix::fs::fcntl_getfl(&self.fd)?;
        let asynchronous = OFlags::from_bits_retain(libc::O_ASYNC as u32);
        rustix::fs::fcntl_setfl(&self.fd, if on { flags | asynchronous } else { flags - asynchronous })
    }

    /// Shuts the socket down, so that every blocked read and write returns.
    ///
    /// In a fork the socket was reset, but its port on the host still belongs to the source's connection: a packet sent
    /// from here would reach the source's connection, which the host kernel finds by that port alone, and close it.
    pub(crate) fn shut_if_alive(&self) {
        let mut fds = [PollFd::new(&self.fd, PollFlags::empty())];
        let now = rustix::event::Timespec::default();
        if matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(0)) {
            let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
        }
    }
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(Errno::PIPE),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
