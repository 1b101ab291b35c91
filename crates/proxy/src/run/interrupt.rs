//! Signals that end the run.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// Becomes readable when the process is asked to end, until it is dropped. Then signals have their usual effect again.
pub struct Interrupts {
    read: UnixStream,
    registered: Vec<SigId>,
}

impl Interrupts {
    /// Listens.
    pub fn listen() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let mut listening = Self { read, registered: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            listening.registered.push(pipe::register(signal, write.try_clone()?)?);
        }
        Ok(listening)
    }
}

/// Waits until the process is asked to end.
pub fn wait_for_interrupt() -> io::Result<()> {
    let mut interrupts = Interrupts::listen()?;
    interrupts.read.read_exact(&mut [0])
}

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}
