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

/// How far runs are followed within one table: long enough to be worth it, short enough to be thrown away when a
/// layer further down makes the run shorter.
const MAX_RUN_CLUSTERS: u64 = 64;

/// What a layer itself says about a piece of the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mapping {
    /// Nothing: what is below counts.
    Unallocated,
    /// It reads as zeros.
    Zeros,
    /// Its bytes are in the file, from this offset on.
    Data(u64),
}

/// A qcow2 file whose tables are read when they are first asked for.
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

    /// What the file at `path` is backed by; cheaper than opening it.
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

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the file from any other.
    pub fn place(&self) -> u128 {
        self.place
    }

    /// Bytes of the disk.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What the layer stands on.
    pub fn parent(&self) -> Option<&DiskSource> {
        self.parent.as_ref()
    }

    /// Whether there is a table for the part of the disk at `offset`.
    pub fn has_table(&self, offset: u64) -> bool {
        self.top.get((offset / TABLE_SPAN) as usize).is_some_and(|entry| entry & OFFSET_MASK != 0)
    }

    /// What is said about the bytes from `offset` on, and for how many of them, at most `limit`.
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
                // Whoever gets there is told.
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

    /// Fills `buffer` with what is at an offset that [`Mapping::Data`] gave. QEMU reads zeros beyond the end of a
    /// file, and so do we.
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

/// Our headers and those of QEMU end long before the first 4 KiB do.
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
    // A name that is not absolute is meant as seen from the file, as QEMU does.
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

/// Tells a file of this host from any other, as long as both are open.
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
