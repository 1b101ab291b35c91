//! The extents of a file on its file system (FIEMAP).

use std::fs::File;
use std::io;

use rustix::ioctl::{Direction, Opcode, Updater, ioctl, opcode};

/// Extents per call.
const BATCH: usize = 64;
const FLAG_SYNC: u32 = 1;
const EXTENT_LAST: u32 = 0x1;
const EXTENT_UNWRITTEN: u32 = 0x800;
const EXTENT_SHARED: u32 = 0x2000;
/// Flags with which the address is not reliable: unknown, delayed allocation, compressed, encrypted, inline, tail-packed,
/// unwritten, or merged from several extents.
const EXTENT_VAGUE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | EXTENT_UNWRITTEN | 0x1000;
/// The size of the request without extents, which is part of the ioctl number.
const HEADER_BYTES: usize = 32;
const FS_IOC_FIEMAP: Opcode = opcode::from_components(Direction::ReadWrite, b'f', 11, HEADER_BYTES);

/// `struct fiemap` with room for some extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

/// `struct fiemap_extent`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// An allocated extent of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Allocated {
    /// The offset in the file.
    pub offset: u64,
    /// The length in bytes.
    pub length: u64,
    /// The address on the file system, if it is reliable.
    pub address: Option<u64>,
    /// Whether it is shared with another file.
    pub is_shared: bool,
    /// Whether it was written.
    pub is_written: bool,
}

/// Flushes the file, so that all data has an address.
pub fn settle(file: &File) -> io::Result<()> {
    query(file, 0, 1, 1, FLAG_SYNC).map(|_| ())
}

/// The first extent that ends after `offset` and begins within `length` bytes from it.
pub fn next(file: &File, offset: u64, length: u64) -> io::Result<Option<Allocated>> {
    let request = query(file, offset, length, 1, 0)?;
    Ok(request.found().first().map(allocated))
}

/// Iterates over the extents of the first `size` bytes.
pub fn for_each(file: &File, size: u64, mut visit: impl FnMut(Allocated)) -> io::Result<()> {
    let mut offset = 0;
    while offset < size {
        let request = query(file, offset, size - offset, BATCH, 0)?;
        let Some(last) = request.found().last() else { return Ok(()) };
        for extent in request.found() {
            visit(allocated(extent));
        }
        let end = last.logical.saturating_add(last.length);
        if last.flags & EXTENT_LAST != 0 || end <= offset {
            return Ok(());
        }
        offset = end;
    }
    Ok(())
}

impl Request {
    fn found(&self) -> &[RawExtent] {
        &self.extents[..(self.mapped_extents as usize).min(BATCH)]
    }
}

fn query(file: &File, start: u64, length: u64, count: usize, flags: u32) -> io::Result<Box<Request>> {
    let mut request = Box::new(Request {
        start,
        length,
        flags,
        mapped_extents: 0,
        extent_count: count.min(BATCH) as u32,
        reserved: 0,
        extents: [RawExtent::default(); BATCH],
    });
    // SAFETY: the number is that of FS_IOC_FIEMAP, and the request is what that call takes: its header, followed by
    // room for at least `extent_count` extents, which is all the kernel writes to.
    unsafe { ioctl(file, Updater::<FS_IOC_FIEMAP, Request>::new(&mut request))? };
    Ok(request)
}

fn allocated(extent: &RawExtent) -> Allocated {
    Allocated {
        offset: extent.logical,
        length: extent.length,
        address: (extent.flags & EXTENT_VAGUE == 0).then_some(extent.physical),
        is_shared: extent.flags & EXTENT_SHARED != 0,
        is_written: extent.flags & EXTENT_UNWRITTEN == 0,
    }
}
