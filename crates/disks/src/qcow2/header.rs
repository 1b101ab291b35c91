//! The qcow2 header.

use std::io;
use std::path::Path;

use super::layout::{CLUSTER_BITS, TABLE_SPAN};

const MAGIC: u32 = u32::from_be_bytes(*b"QFI\xfb");
const VERSION: u32 = 3;
/// The header length, including the compression type.
const LENGTH: usize = 112;
const MIN_LENGTH: usize = 104;
const REFCOUNT_ORDER: u32 = 4;
/// The incompatible feature "dirty" (reference counts may be out of date), which does not affect reading.
const DIRTY: u64 = 1;
const CORRUPT: u64 = 1 << 1;
const BACKING_FORMAT: u32 = 0xe279_2aca;
/// Longer than QEMU allows for a name.
const MAX_BACKING_NAME: usize = 1023;
/// Like QEMU: 32 MiB, enough for 2 PiB.
const MAX_TOP_ENTRIES: u64 = 1 << 22;

/// The backing file that a header names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Backing {
    /// The file's name.
    pub name: String,
    /// Whether it is a qcow2 file; otherwise a raw image.
    pub is_layer: bool,
}

/// The part of the header that reading needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Header {
    /// Bytes of the disk.
    pub size: u64,
    /// The offset of the L1 table.
    pub top_offset: u64,
    /// The backing file.
    pub backing: Option<Backing>,
}

/// The reference counts.
#[derive(Clone, Copy, Debug)]
pub struct Refcounts {
    /// The offset of their table.
    pub table_offset: u64,
    /// The number of clusters of the table.
    pub table_clusters: u32,
}

impl Header {
    /// The number of L1 entries of a disk of `size` bytes.
    pub fn top_entries(size: u64) -> u64 {
        size.div_ceil(TABLE_SPAN)
    }

    /// Parses a header.
    pub fn parse(bytes: &[u8]) -> io::Result<Self> {
        let fields = Fields(bytes);
        if bytes.len() < 8 || fields.u32(0)? != MAGIC {
            return Err(bad("it is not a qcow2 file"));
        }
        if fields.u32(4)? != VERSION || fields.u32(20)? != CLUSTER_BITS || fields.u32(96)? != REFCOUNT_ORDER {
            return Err(bad("only version 3 with clusters of 64 KiB is supported"));
        }
        let features = fields.u64(72)?;
        if features & CORRUPT != 0 {
            return Err(bad("it is marked as corrupt"));
        }
        if features & !DIRTY != 0 || fields.u32(32)? != 0 {
            return Err(bad("it is encrypted or uses features that are not supported"));
        }
        if fields.u32(60)? != 0 {
            return Err(bad("it has internal snapshots"));
        }
        let size = fields.u64(24)?;
        let entries = Self::top_entries(size);
        if entries > MAX_TOP_ENTRIES || u64::from(fields.u32(36)?) < entries {
            return Err(bad("its first-level table does not fit its size"));
        }
        Ok(Self { size, top_offset: fields.u64(40)?, backing: backing(&fields)? })
    }

    /// Encodes the first cluster of a file.
    pub fn encode(&self, refcounts: Refcounts) -> io::Result<Vec<u8>> {
        let entries = Self::top_entries(self.size);
        if entries > MAX_TOP_ENTRIES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a disk cannot be that large"));
        }
        let mut extensions = Vec::new();
        let mut name = "";
        if let Some(backing) = &self.backing {
            name = &backing.name;
            let format: &[u8] = if backing.is_layer { b"qcow2" } else { b"raw" };
            extensions.extend(BACKING_FORMAT.to_be_bytes());
            extensions.extend((format.len() as u32).to_be_bytes());
            extensions.extend(format);
            extensions.resize(extensions.len().next_multiple_of(8), 0);
        }
        extensions.extend([0; 8]);
        let (name_offset, name_length) =
            if name.is_empty() { (0, 0) } else { (LENGTH + extensions.len(), name.len()) };

        let mut bytes = Vec::with_capacity(LENGTH + extensions.len() + name.len());
        bytes.extend(MAGIC.to_be_bytes());
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend((name_offset as u64).to_be_bytes());
        bytes.extend((name_length as u32).to_be_bytes());
        bytes.extend(CLUSTER_BITS.to_be_bytes());
        bytes.extend(self.size.to_be_bytes());
        bytes.extend([0; 4]); // not encrypted
        bytes.extend((entries as u32).to_be_bytes());
        bytes.extend(self.top_offset.to_be_bytes());
        bytes.extend(refcounts.table_offset.to_be_bytes());
        bytes.extend(refcounts.table_clusters.to_be_bytes());
        bytes.extend([0; 12]); // no internal snapshots
        bytes.extend([0; 24]); // no features of any kind
        bytes.extend(REFCOUNT_ORDER.to_be_bytes());
        bytes.extend((LENGTH as u32).to_be_bytes());
        bytes.resize(LENGTH, 0);
        bytes.extend(extensions);
        bytes.extend(name.as_bytes());
        Ok(bytes)
    }
}

impl Backing {
    /// A backing file.
    pub fn new(path: &Path, is_layer: bool) -> Result<Self, String> {
        let name = path.to_str().ok_or("its path is not UTF-8")?;
        if name.len() > MAX_BACKING_NAME {
            return Err("its path is too long".to_owned());
        }
        Ok(Self { name: name.to_owned(), is_layer })
    }
}

fn backing(fields: &Fields<'_>) -> io::Result<Option<Backing>> {
    let (offset, length) = (fields.u64(8)?, fields.u32(16)? as usize);
    if offset == 0 {
        return Ok(None);
    }
    if length == 0 || length > MAX_BACKING_NAME {
        return Err(bad("the name of its backing file has an impossible length"));
    }
    let offset = usize::try_from(offset).map_err(|_| cut_off())?;
    let name = fields.slice(offset, length)?;
    let name = str::from_utf8(name).map_err(|_| bad("the name of its backing file is not UTF-8"))?;
    let is_layer = match backing_format(fields)? {
        Some(b"qcow2") => true,
        Some(b"raw") => false,
        _ => return Err(bad("the format of its backing file is missing or not supported")),
    };
    Ok(Some(Backing { name: name.to_owned(), is_layer }))
}

fn backing_format<'a>(fields: &Fields<'a>) -> io::Result<Option<&'a [u8]>> {
    let mut offset = fields.u32(100)? as usize;
    if offset < MIN_LENGTH || !offset.is_multiple_of(8) {
        return Err(bad("its header has an impossible length"));
    }
    loop {
        let (kind, length) = (fields.u32(offset)?, fields.u32(offset + 4)? as usize);
        match kind {
            0 => return Ok(None),
            BACKING_FORMAT => return fields.slice(offset + 8, length).map(Some),
            _ => offset = offset.saturating_add(8).saturating_add(length.next_multiple_of(8)),
        }
    }
}

/// Reads big-endian numbers, with bounds checks.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn slice(&self, offset: usize, length: usize) -> io::Result<&'a [u8]> {
        let end = offset.checked_add(length).ok_or_else(cut_off)?;
        self.0.get(offset..end).ok_or_else(cut_off)
    }

    fn u32(&self, offset: usize) -> io::Result<u32> {
        self.slice(offset, 4)?.try_into().map(u32::from_be_bytes).map_err(|_| cut_off())
    }

    fn u64(&self, offset: usize) -> io::Result<u64> {
        self.slice(offset, 8)?.try_into().map(u64::from_be_bytes).map_err(|_| cut_off())
    }
}

fn cut_off() -> io::Error {
    bad("its header is cut off")
}

/// An error for a damaged or unsupported file.
pub fn bad(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let backing = Backing::new(Path::new("/somewhere/base"), true).unwrap();
        Header { size: 10 << 30, top_offset: 1 << 16, backing: Some(backing) }
    }

    fn encoded() -> Vec<u8> {
        header().encode(Refcounts { table_offset: 2 << 16, table_clusters: 1 }).unwrap()
    }

    #[test]
    fn a_header_reads_as_it_was_written() {
        assert_eq!(Header::parse(&encoded()).unwrap(), header());
        let alone = Header { backing: None, ..header() };
        let bytes = alone.encode(Refcounts { table_offset: 2 << 16, table_clusters: 1 }).unwrap();
        assert_eq!(Header::parse(&bytes).unwrap(), alone);
    }

    #[test]
    fn a_header_cut_off_anywhere_is_refused() {
        let bytes = encoded();
        for length in 0..bytes.len() {
            assert!(Header::parse(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_header_with_any_byte_changed_is_read_or_refused_but_never_a_panic() {
        let bytes = encoded();
        for index in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut odd = bytes.clone();
                odd[index] = value;
                let _ = Header::parse(&odd);
            }
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_with_the_reason() {
        let refuse = |offset: usize, value: u8, reason: &str| {
            let mut bytes = encoded();
            bytes[offset] = value;
            let error = Header::parse(&bytes).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        };
        refuse(0, b'X', "not a qcow2 file");
        refuse(7, 2, "version 3");
        refuse(23, 12, "64 KiB");
        refuse(35, 1, "encrypted");
        refuse(39, 1, "first-level table");
        refuse(63, 1, "internal snapshots");
        refuse(79, 0b10, "corrupt");
        refuse(79, 0b100, "features");
        refuse(79, 0b10000, "features");
    }

    #[test]
    fn a_file_that_a_killed_writer_left_dirty_is_read() {
        let mut bytes = encoded();
        bytes[79] = 1;
        assert_eq!(Header::parse(&bytes).unwrap(), header());
    }
}
