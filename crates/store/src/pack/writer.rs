//! Writes a pack under a temporary name.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::format::{self, ENTRY_LEN, Encoding, Footer, IndexEntry, RECORD_LEN, RecordHeader};
use crate::error::StoreError;
use crate::id::{ObjectId, ObjectKind};
use crate::limits::MAX_OBJECT;

/// Objects below this size are not compressed: the frame of zstd would eat the gain.
const MIN_COMPRESSED: usize = 128;
/// Of larger objects this much is tried first.
const SAMPLE: usize = 16 << 10;
/// Fast enough not to slow down an import from a warm cache.
const LEVEL: i32 = 1;
/// Bytes collected before they are written.
const BUFFER: usize = 1 << 20;

thread_local! {
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// Appends the record of an object to `out` and returns its header. Compresses where at least an eighth is saved.
pub(crate) fn encode_object(
    id: ObjectId,
    kind: ObjectKind,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<RecordHeader, StoreError> {
    if raw.len() > MAX_OBJECT {
        let reason = format!("it is larger than {MAX_OBJECT} bytes");
        return Err(StoreError::invalid(format!("the {} {id}", kind.as_str()), reason));
    }
    let start = out.len();
    out.resize(start + RECORD_LEN, 0);
    let compressed = if is_worth_trying(raw) { compress(raw, out) } else { None };
    let (encoding, stored) = match compressed {
        Some(len) => (Encoding::Zstd, len),
        None => {
            out.truncate(start + RECORD_LEN);
            out.extend_from_slice(raw);
            (Encoding::Plain, raw.len())
        }
    };
    let header = RecordHeader { id, kind, encoding, stored: stored as u32, raw: raw.len() as u32 };
    if let Some(place) = out.get_mut(start..start + RECORD_LEN) {
        place.copy_from_slice(&header.encode());
    }
    Ok(header)
}

fn is_worth_trying(raw: &[u8]) -> bool {
    if raw.len() < MIN_COMPRESSED {
        return false;
    }
    let Some(sample) = raw.get(..SAMPLE).filter(|_| raw.len() > 2 * SAMPLE) else { return true };
    compress(sample, &mut Vec::new()).is_some()
}

/// Appends the compressed bytes, or returns nothing and leaves `out` longer by an undefined amount.
fn compress(raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        let compressor = slot.as_mut()?;
        let start = out.len();
        let limit = raw.len() - raw.len() / 8;
        out.resize(start + limit, 0);
        // Fails if the result does not fit, which is what tells that it does not pay.
        let len = compressor.compress_to_buffer(raw, out.get_mut(start..)?).ok()?;
        out.truncate(start + len);
        Some(len)
    })
}

/// A pack that is being written. Its file is locked for as long as the writer lives, so that nobody removes it as a
/// leftover; dropping the writer removes it.
#[derive(Debug)]
pub(crate) struct PackWriter {
    file: File,
    path: PathBuf,
    /// Bytes already written to the file.
    written: u64,
    buffer: Vec<u8>,
    entries: Vec<IndexEntry>,
}

/// A complete pack under a temporary name.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) path: PathBuf,
    // Keeps the lock until the pack has its final name.
    _file: File,
}

impl PackWriter {
    pub(crate) fn create(path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(StoreError::io("create", path))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(StoreError::os("lock", path))?;
        let buffer = format::header().to_vec();
        Ok(Self { file, path: path.to_owned(), written: 0, buffer, entries: Vec::new() })
    }

    /// Number of bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends a record made by [`encode_object`].
    pub(crate) fn append(&mut self, header: RecordHeader, record: &[u8]) -> Result<IndexEntry, StoreError> {
        let entry = IndexEntry { header, offset: self.len() };
        self.buffer.extend_from_slice(record);
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        self.entries.push(entry);
        Ok(entry)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let result = self.file.write_all(&self.buffer);
        result.map_err(StoreError::io("write", &self.path))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Reads the stored bytes of an object that was appended.
    pub(crate) fn read(&self, entry: &IndexEntry) -> Result<Vec<u8>, StoreError> {
        let len = entry.header.stored as usize;
        let start = entry.offset + RECORD_LEN as u64;
        if let Some(start) = start.checked_sub(self.written) {
            let start = start as usize;
            let bytes = self.buffer.get(start..start + len);
            return bytes.map(<[u8]>::to_vec).ok_or_else(|| StoreError::damaged("a pack", "it is shorter"));
        }
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, start).map_err(StoreError::io("read", &self.path))?;
        Ok(bytes)
    }

    /// Starts writing to disk what was appended so far, so that less is left when commits wait.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.file.sync_data().map_err(StoreError::io("write", &self.path))
    }

    /// Writes index and footer and waits until everything is on disk.
    pub(crate) fn seal(mut self) -> Result<Packed, StoreError> {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by_key(|entry| entry.header.id);
        let bits = format::fan_bits(entries.len());
        let mut table = Vec::with_capacity(entries.len() * ENTRY_LEN + (4 << bits));
        let mut fan = vec![0_u32; 1 << bits];
        for entry in &entries {
            table.extend_from_slice(&entry.encode());
            if let Some(count) = fan.get_mut(format::bucket(&entry.header.id, bits)) {
                *count += 1;
            }
        }
        let mut below = 0;
        for count in fan {
            table.extend_from_slice(&u32::to_le_bytes(below));
            below += count;
        }
        let mut footer = Footer {
            fan_bits: bits,
            count: entries.len() as u64,
            index_offset: self.len(),
            checksum: [0; 32],
        };
        footer.checksum = footer.sum(&table);
        self.buffer.extend_from_slice(&table);
        self.buffer.extend_from_slice(&footer.encode());
        self.sync()?;
        let path = std::mem::take(&mut self.path);
        let file = self.file.try_clone().map_err(StoreError::io("keep open", &path))?;
        Ok(Packed { path, _file: file })
    }
}

impl Drop for PackWriter {
    fn drop(&mut self) {
        // `seal` takes the path.
        if !self.path.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        // Fails, as it should, once the pack has its final name.
        let _ = std::fs::remove_file(&self.path);
    }
}
