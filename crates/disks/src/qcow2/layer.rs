//! One qcow2 file, opened for reading.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use agentiso_core::ports::{DiskError, DiskSource};

use super::header::{Header, bad};
use super::layout::{CLUSTER, COMPRESSED, OFFSET_MASK, TABLE_ENTRIES, TABLE_SPAN, ZERO};
use crate::sparse;

/// The most bytes that a run is extended within one table. More would often be wasted, because a layer further down ends
/// the run.
const MAX_RUN_CLUSTERS: u64 = 64;

/// The content of a range in one layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mapping {
    /// Not allocated: the backing file counts.
    Unallocated,
    /// It reads as zeros.
    Zeros,
    /// Data at this offset of the file.
    Data(u64),
}

/// A qcow2 file whose tables are read on first use.
pub struct Layer {
    file: File,
    path: PathBuf,
    place: u128,
    size: u64,
    parent: Option<DiskSource>,
    top: Vec<u64>,
    tables: Vec<OnceLock<Vec<u64>>>,
}

impl Layer {
    /// Opens a file that nobody writes to. Takes no locks.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        Self::try_open(path).map_err(|cause| open_error(path, cause))
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        let (file, header) = open_header(path)?;
        let metadata = file.metadata()?;
        let entries = Header::top_entries(header.size);
        let top = read_table(&file, metadata.len(), header.top_offset, entries)?;
        Ok(Self {
            place: place(&metadata),
            size: header.size,
            parent: parent_of(path, &header),
            tables: top.iter().map(|_| OnceLock::new()).collect(),
            path: path.to_owned(),
            file,
            top,
        })
    }

    /// The backing file of the file at `path`; cheaper than opening it.
    pub fn parent_at(path: &Path) -> Result<Option<DiskSource>, DiskError> {
        let (_, header) = open_header(path).map_err(|cause| open_error(path, cause))?;
        Ok(parent_of(path, &header))
    }

    /// The size of the disk in the file at `path`; cheaper than opening it.
    pub fn size_at(path: &Path) -> io::Result<u64> {
        Ok(open_header(path)?.1.size)
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identifies the file.
    pub fn place(&self) -> u128 {
        self.place
    }

    /// Bytes of the disk.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The backing file.
    pub fn parent(&self) -> Option<&DiskSource> {
        self.parent.as_ref()
    }

    /// Whether there is an L2 table for `offset`.
    pub fn has_table(&self, offset: u64) -> bool {
        self.top.get((offset / TABLE_SPAN) as usize).is_some_and(|entry| entry & OFFSET_MASK != 0)
    }

    /// The content at `offset` and its length, at most `limit`.
    pub fn mapping(&self, offset: u64, limit: u64) -> io::Result<(Mapping, u64)> {
        let Some(table) = self.table(offset)? else {
            return Ok((Mapping::Unallocated, limit.min(TABLE_SPAN - offset % TABLE_SPAN)));
        };
        let first = offset % TABLE_SPAN / CLUSTER;
        let within = offset % CLUSTER;
        let mapping = read_entry(table[first as usize])?;
        let mut length = CLUSTER - within;
        for index in (first + 1..TABLE_ENTRIES).take(MAX_RUN_CLUSTERS as usize - 1) {
            let follows = match (mapping, read_entry(table[index as usize])) {
                (Mapping::Data(start), Ok(Mapping::Data(next))) => {
                    Some(next) == start.checked_add(within + length)
                }
                (mapping, Ok(next)) => mapping == next,
                // Reported when that offset is read.
                (_, Err(_)) => false,
            };
            if length >= limit || !follows {
                break;
            }
            length += CLUSTER;
        }
        let mapping = match mapping {
            Mapping::Data(start) => Mapping::Data(start + within),
            other => other,
        };
        Ok((mapping, length.min(limit)))
    }

    /// Reads from an offset of [`Mapping::Data`]. Like QEMU, it reads zeros beyond the end of the file.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        sparse::read_padded(&self.file, at, buffer)
    }

    fn table(&self, offset: u64) -> io::Result<Option<&[u64]>> {
        let index = (offset / TABLE_SPAN) as usize;
        let entry =
            *self.top.get(index).ok_or_else(|| bad("a place beyond the end of the disk"))? & OFFSET_MASK;
        if entry == 0 {
            return Ok(None);
        }
        if let Some(table) = self.tables[index].get() {
            return Ok(Some(table));
        }
        let length = self.file.metadata()?.len();
        let table = read_table(&self.file, length, entry, TABLE_ENTRIES)?;
        Ok(Some(self.tables[index].get_or_init(|| table)))
    }
}

fn open_header(path: &Path) -> io::Result<(File, Header)> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(bad("it is not a regular file"));
    }
    let mut start = vec![0; 4096];
    let count = read_up_to(&file, &mut start)?;
    let header = Header::parse(&start[..count])?;
    Ok((file, header))
}

/// Headers, ours and QEMU's, are much shorter than this.
fn read_up_to(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn parent_of(path: &Path, header: &Header) -> Option<DiskSource> {
    let backing = header.backing.as_ref()?;
    // A relative name is relative to the file, as in QEMU.
    let path = path.parent().unwrap_or(Path::new("")).join(&backing.name);
    Some(if backing.is_layer { DiskSource::Layer(path) } else { DiskSource::Raw(path) })
}

fn read_table(file: &File, file_length: u64, offset: u64, entries: u64) -> io::Result<Vec<u64>> {
    if entries == 0 {
        return Ok(Vec::new());
    }
    if offset == 0 || !offset.is_multiple_of(CLUSTER) {
        return Err(bad("a table is at an impossible place"));
    }
    if offset.checked_add(entries * 8).is_none_or(|end| end > file_length) {
        return Err(bad("a table is beyond the end of the file"));
    }
    let mut bytes = vec![0; (entries * 8) as usize];
    file.read_exact_at(&mut bytes, offset)?;
    let entry = |chunk: &[u8]| chunk.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    Ok(bytes.chunks_exact(8).map(entry).collect())
}

fn read_entry(entry: u64) -> io::Result<Mapping> {
    let offset = entry & OFFSET_MASK;
    if entry & COMPRESSED != 0 {
        Err(bad("it has compressed clusters"))
    } else if entry & ZERO != 0 {
        Ok(Mapping::Zeros)
    } else if offset == 0 {
        Ok(Mapping::Unallocated)
    } else if offset.is_multiple_of(CLUSTER) {
        Ok(Mapping::Data(offset))
    } else {
        Err(bad("a cluster is at an impossible place"))
    }
}

/// Identifies an open file on this host.
pub fn place(metadata: &std::fs::Metadata) -> u128 {
    u128::from(metadata.dev()) << 64 | u128::from(metadata.ino())
}

fn open_error(path: &Path, cause: io::Error) -> DiskError {
    match cause.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            DiskError::BadDisk { path: path.to_owned(), reason: cause.to_string() }
        }
        _ => DiskError::Io { action: "open the disk", path: path.to_owned(), cause },
    }
}
