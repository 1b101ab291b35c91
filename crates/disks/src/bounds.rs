//! Bounds checks.

use std::io;

/// Fails if a range extends beyond the end of a disk.
pub(crate) fn check(size: u64, offset: u64, length: u64) -> io::Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(()),
        _ => Err(beyond_the_end()),
    }
}

/// The number of bytes from an offset to the end; fails if there are none.
pub(crate) fn rest(size: u64, offset: u64) -> io::Result<u64> {
    size.checked_sub(offset).filter(|&rest| rest > 0).ok_or_else(beyond_the_end)
}

fn beyond_the_end() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the disk")
}
