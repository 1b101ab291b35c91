//! The byte stream to the host.

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

/// A session on the link; sessions that ended can no longer send.
pub(crate) type Epoch = u64;

/// The session is over; whatever was to be said concerns nobody any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Ended;

/// What the stream is made of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    /// A socket: its end is the end.
    Socket,
    /// A virtio port: an end of file only says that no host is attached right now.
    Port,
}

/// What a read brought.
pub(crate) enum Arrived {
    /// So many bytes.
    Bytes(usize),
    /// No host is attached; [`Link::wait_for_host`] waits for one.
    Nobody,
    /// Nothing will ever come again.
    Closed,
}

/// The byte stream to the host, written by many and read by one.
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

    /// Starts a session: its Welcome is the first thing sent, and nothing of an earlier session comes after it.
    pub(crate) fn begin(&self, welcome: &[u8]) -> Epoch {
        let mut current = locked(&self.epoch);
        current.last += 1;
        current.open = write_all(self.fd.as_fd(), welcome).is_ok();
        current.last
    }

    /// Ends the session, if one is open.
    pub(crate) fn end(&self) {
        locked(&self.epoch).open = false;
    }

    /// Sends whole frames of a session in one piece.
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

    /// Waits for bytes from the host.
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
    /// A port without a host is always readable, so poll cannot wait for one; but the kernel sends SIGIO when a host
    /// comes. The signal is blocked everywhere, so it stays pending if it comes before the wait.
    pub(crate) fn wait_for_host(&self) {
        let timeout = libc::timespec { tv_sec: 1, tv_nsec: 0 };
        // SAFETY: the set is initialised by sigemptyset before use, and all pointers are to live locals.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGIO);
            libc::sigtimedwait(&set, ptr::null_mut(), &timeout);
        }
    }

    /// Asks for SIGIO when a host attaches to the port or leaves it.
    pub(crate) fn watch_for_host(&self, on: bool) -> Result<()> {
        if on {
            let owner = rustix::process::getpid().as_raw_nonzero().get();
            // SAFETY: F_SETOWN takes a process id and touches no memory.
            unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&self.fd), libc::F_SETOWN, owner) };
        }
        let flags = rustix::fs::fcntl_getfl(&self.fd)?;
        let asynchronous = OFlags::from_bits_retain(libc::O_ASYNC as u32);
        rustix::fs::fcntl_setfl(&self.fd, if on { flags | asynchronous } else { flags - asynchronous })
    }

    /// Makes every read and write on a socket return.
    ///
    /// In a fork the socket was reset, and its port on the host is still the source's: a last word from here would
    /// reach the source's own connection, which the host's kernel finds by that port alone, and end it.
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
