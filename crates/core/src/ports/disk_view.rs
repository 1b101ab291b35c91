//! Reading what a disk holds, without a machine.

use std::io;

/// Where bytes of a disk are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// Nowhere: they read as zeros.
    Zeros,
    /// At a place on the host that is never rewritten while anything refers to it.
    Stored {
        /// Identifies the file or device on this host.
        place: u128,
        /// Where in it the first byte is.
        at: u64,
    },
    /// Unknown: the bytes have to be read.
    Unknown,
}

/// A piece of a disk with one origin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Extent {
    /// Where its bytes are kept.
    pub origin: Origin,
    /// How many bytes it has, counted from the offset asked for; never zero.
    pub length: u64,
}

impl Extent {
    /// Whether two pieces surely hold the same bytes, as far as both reach.
    pub fn surely_equals(&self, other: &Self) -> bool {
        self.origin == other.origin && self.origin != Origin::Unknown
    }
}

/// The content of a disk that does not change while it is looked at.
pub trait DiskView: Send + Sync {
    /// Its size in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` from `offset` on. Reading beyond the end is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Where the bytes from `offset` on are kept. Asking beyond the end is an error.
    fn extent_at(&self, offset: u64) -> io::Result<Extent>;
}
