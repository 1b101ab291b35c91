//! Reading a disk without a machine.

use std::io;

/// Where bytes of a disk are stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// Nowhere: they read as zeros.
    Zeros,
    /// At a location on the host that is not overwritten while anything refers to it.
    Stored {
        /// Identifies the file or device.
        place: u128,
        /// The offset of the first byte.
        at: u64,
    },
    /// Unknown: the bytes have to be read.
    Unknown,
}

/// A range of a disk with one origin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Extent {
    /// Where its bytes are stored.
    pub origin: Origin,
    /// Its length from the requested offset; never zero.
    pub length: u64,
}

impl Extent {
    /// Whether two ranges are known to have the same content, up to the length of the shorter one.
    pub fn surely_equals(&self, other: &Self) -> bool {
        self.origin == other.origin && self.origin != Origin::Unknown
    }
}

/// The content of a disk, which does not change.
pub trait DiskView: Send + Sync {
    /// Its size in bytes.
    fn size(&self) -> u64;

    /// Reads from `offset`. Reading beyond the end is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Where the bytes from `offset` are stored. An offset beyond the end is an error.
    fn extent_at(&self, offset: u64) -> io::Result<Extent>;
}
