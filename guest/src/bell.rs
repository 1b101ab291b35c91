//! Waking a worker that waits for something else than its stream.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{During, Outcome};

/// Something that wakes a waiting worker, whatever it waits in.
pub(crate) trait Wakeable: Send + Sync {
    /// Makes it look again.
    fn wake(&self);
}

/// A descriptor that is readable once it was rung, for a worker that waits in poll.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> Outcome<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        eventfd(0, flags).map(Self).during(|| "making an event descriptor")
    }

    /// Makes it unreadable again. Whatever the count, everything it stands for is looked at next.
    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl Wakeable for Bell {
    fn wake(&self) {
        // A full counter means that the wake-up is already on its way.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
