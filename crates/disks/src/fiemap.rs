//! Where the file system keeps the bytes of a file.

use std::fs::File;
use std::io;

use rustix::ioctl::{Direction, Opcode, Updater, ioctl, opcode};

/// Extents asked for at once.
const BATCH: usize = 64;
const FLAG_SYNC: u32 = 1;
const EXTENT_LAST: u32 = 0x1;
const EXTENT_UNWRITTEN: u32 = 0x800;
const EXTENT_SHARED: u32 = 0x2000;
/// The address says nothing reliable: not known, not yet allocated, compressed, encrypted, within metadata, packed
/// with other files' data, not yet written, or put together from several extents.
const EXTENT_VAGUE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | EXTENT_UNWRITTEN | 0x1000;
/// Bytes of the request that come before the extents; the number of the call is made from this.
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

/// A piece of a file for which space is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Allocated {
    /// Where in the file.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// Where on the file system, if that can be told.
    pub address: Option<u64>,
    /// Whether another file has it too.
    pub is_shared: bool,
    /// Whether something was ever written there.
    pub is_written: bool,
}

/// Waits until everything written to the file has its place.
pub fn settle(file: &File) -> io::Result<()> {
    query(file, 0, 1, 1, FLAG_SYNC).map(|_| ())
}

/// The first allocated piece that ends after `offset`, if one begins within `length` bytes from there.
pub fn next(file: &File, offset: u64, length: u64) -> io::Result<Option<Allocated>> {
    let request = query(file, offset, length, 1, 0)?;
    Ok(request.found().first().map(allocated))
}

/// Goes through all allocated pieces of the first `size` bytes.
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
