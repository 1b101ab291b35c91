//! Wakes workers that wait for something other than their stream.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{During, Outcome};

/// Wakes a waiting worker, however it waits.
pub(crate) trait Wakeable: Send + Sync {
    /// Makes the worker check its state again.
    fn wake(&self);
}

/// An eventfd that becomes readable when rung, for workers that wait in `poll`.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> Outcome<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        eventfd(0, flags).map(Self).during(|| "creating an eventfd")
    }

    /// Resets the bell. The caller then checks everything it may have been rung for.
    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl Wakeable for Bell {
    fn wake(&self) {
        // EAGAIN means that the counter is full, so a wake-up is already pending.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
