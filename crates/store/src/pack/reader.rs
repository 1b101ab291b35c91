//! Reads objects from a pack.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::format::{
    self, ENTRY_LEN, Encoding, FOOTER_LEN, Footer, HEADER_LEN, IndexEntry, RECORD_LEN, RecordHeader,
};
use crate::error::StoreError;
use crate::id::{ObjectId, ObjectKind};

/// After this many lookups the whole index is loaded: bulk work looks up thousands, a small command only a few.
const LOOKUPS_BEFORE_LOADING: u32 = 64;

/// An open pack. It stays readable when it is removed from the directory.
#[derive(Debug)]
pub(crate) struct Pack {
    file: File,
    path: PathBuf,
    name: String,
    len: u64,
    footer: Footer,
    /// How many ids are in earlier buckets.
    fan: Vec<u32>,
    lookups: AtomicU32,
    index: OnceLock<Vec<u8>>,
}

impl Pack {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        let len = file.metadata().map_err(StoreError::io("read", path))?.len();
        let named = |error: StoreError| match error {
            StoreError::Damaged { reason, .. } => StoreError::damaged(path.display(), reason),
            other => other,
        };
        if len < (HEADER_LEN + FOOTER_LEN) as u64 {
            return Err(StoreError::damaged(path.display(), "it is too short"));
        }
        let mut bytes = [0; FOOTER_LEN];
        file.read_exact_at(&mut bytes, len - FOOTER_LEN as u64).map_err(StoreError::io("read", path))?;
        let footer = Footer::decode(&bytes, len).map_err(named)?;
        let mut fan = vec![0; footer.fan_len()];
        let fan_offset = footer.index_offset + footer.count * ENTRY_LEN as u64;
        file.read_exact_at(&mut fan, fan_offset).map_err(StoreError::io("read", path))?;
        let (numbers, _) = fan.as_chunks::<4>();
        let fan: Vec<u32> = numbers.iter().map(|number| u32::from_le_bytes(*number)).collect();
        if !fan.is_sorted()
            || fan.first() != Some(&0)
            || fan.last().is_some_and(|last| u64::from(*last) > footer.count)
        {
            return Err(StoreError::damaged(path.display(), "its fan-out is not sorted"));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            file,
            path: path.to_owned(),
            name,
            len,
            footer,
            fan,
            lookups: AtomicU32::new(0),
            index: OnceLock::new(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Size of the file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Number of objects.
    pub(crate) fn count(&self) -> u64 {
        self.footer.count
    }

    /// Finds an object.
    pub(crate) fn find(&self, id: &ObjectId) -> Result<Option<IndexEntry>, StoreError> {
        let bucket = format::bucket(id, self.footer.fan_bits);
        let Some(start) = self.fan.get(bucket).map(|start| *start as usize) else { return Ok(None) };
        let end = self.fan.get(bucket + 1).map_or(self.footer.count as usize, |end| *end as usize);
        if start >= end {
            return Ok(None);
        }
        if self.index.get().is_none() {
            if self.lookups.fetch_add(1, Ordering::Relaxed) < LOOKUPS_BEFORE_LOADING {
                let mut bytes = vec![0; (end - start) * ENTRY_LEN];
                let offset = self.footer.index_offset + (start * ENTRY_LEN) as u64;
                self.read_at(&mut bytes, offset)?;
                return self.search(&bytes, id);
            }
            self.load()?;
        }
        let index = self.index.get().map_or(&[][..], Vec::as_slice);
        self.search(index.get(start * ENTRY_LEN..end * ENTRY_LEN).unwrap_or_default(), id)
    }

    fn search(&self, entries: &[u8], id: &ObjectId) -> Result<Option<IndexEntry>, StoreError> {
        let (entries, _) = entries.as_chunks::<ENTRY_LEN>();
        match entries.binary_search_by(|entry| entry[..ObjectId::LEN].cmp(id.as_bytes())) {
            Err(_) => Ok(None),
            Ok(at) => self.entry(&entries[at]).map(Some),
        }
    }

    fn entry(&self, bytes: &[u8]) -> Result<IndexEntry, StoreError> {
        IndexEntry::decode(bytes)
            .filter(|entry| entry.offset >= HEADER_LEN as u64 && entry.offset < self.footer.index_offset)
            .filter(|entry| entry.end() <= self.footer.index_offset)
            .ok_or_else(|| self.damaged("an entry of its index is invalid"))
    }

    /// Loads and checks the whole index.
    fn load(&self) -> Result<(), StoreError> {
        let mut table = vec![0; self.footer.table_len() as usize];
        self.read_at(&mut table, self.footer.index_offset)?;
        if self.footer.sum(&table) != self.footer.checksum {
            return Err(self.damaged("the checksum of its index is wrong"));
        }
        table.truncate(self.footer.count as usize * ENTRY_LEN);
        let _ = self.index.set(table);
        Ok(())
    }

    /// All objects, sorted by id. Checks the index.
    pub(crate) fn entries(&self) -> Result<Vec<IndexEntry>, StoreError> {
        if self.index.get().is_none() {
            self.load()?;
        }
        let (entries, _) = self.index.get().map_or(&[][..], Vec::as_slice).as_chunks::<ENTRY_LEN>();
        entries.iter().map(|bytes| self.entry(bytes)).collect()
    }

    /// Checks the sum of the index against the bytes on disk, even if it is already loaded.
    pub(crate) fn verify_index(&self) -> Result<(), StoreError> {
        let mut header = [0; HEADER_LEN];
        self.read_at(&mut header, 0)?;
        if header != format::header() {
            return Err(self.damaged("its header is wrong"));
        }
        let mut table = vec![0; self.footer.table_len() as usize];
        self.read_at(&mut table, self.footer.index_offset)?;
        if self.footer.sum(&table) == self.footer.checksum {
            Ok(())
        } else {
            Err(self.damaged("the checksum of its index is wrong"))
        }
    }

    /// Reads an object and checks it.
    pub(crate) fn read(&self, entry: &IndexEntry) -> Result<Vec<u8>, StoreError> {
        let mut record = self.record(entry)?;
        decode(&entry.header, record.split_off(RECORD_LEN))
            .map_err(|reason| self.damaged_object(entry, reason))
    }

    /// Reads the record of an object as it is stored, and checks that it is good.
    pub(crate) fn checked_record(&self, entry: &IndexEntry) -> Result<Vec<u8>, StoreError> {
        let record = self.record(entry)?;
        let stored = record.get(RECORD_LEN..).unwrap_or_default().to_vec();
        decode(&entry.header, stored).map_err(|reason| self.damaged_object(entry, reason))?;
        Ok(record)
    }

    fn record(&self, entry: &IndexEntry) -> Result<Vec<u8>, StoreError> {
        let mut record = vec![0; RECORD_LEN + entry.header.stored as usize];
        self.read_at(&mut record, entry.offset)?;
        let header = record.first_chunk().and_then(RecordHeader::decode);
        if header != Some(entry.header) {
            return Err(self.damaged_object(entry, "its record does not fit the index"));
        }
        Ok(record)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), StoreError> {
        match self.file.read_exact_at(bytes, offset) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.damaged("it is shorter than it should be"))
            }
            Err(source) => Err(StoreError::Io { what: "read", path: self.path.clone(), source }),
        }
    }

    fn damaged(&self, reason: &str) -> StoreError {
        StoreError::damaged(self.path.display(), reason)
    }

    fn damaged_object(&self, entry: &IndexEntry, reason: impl ToString) -> StoreError {
        let what = format!("the {} {} in {}", entry.header.kind.as_str(), entry.header.id, self.name);
        StoreError::damaged(what, reason)
    }
}

/// The bytes of an object from its stored bytes, checked against its id.
pub(crate) fn decode(header: &RecordHeader, stored: Vec<u8>) -> Result<Vec<u8>, String> {
    let raw = match header.encoding {
        Encoding::Plain => stored,
        Encoding::Zstd => zstd::bulk::decompress(&stored, header.raw as usize)
            .map_err(|error| format!("it cannot be decompressed: {error}"))?,
    };
    if raw.len() != header.raw as usize || ObjectId::of(header.kind, &raw) != header.id {
        return Err("its content does not have the right hash".to_owned());
    }
    Ok(raw)
}

/// The bytes of an object that is being written, for the session that writes it.
pub(crate) fn decode_pending(
    entry: &IndexEntry,
    stored: Vec<u8>,
    wanted: ObjectKind,
) -> Result<Vec<u8>, StoreError> {
    let what = || format!("the {} {}", wanted.as_str(), entry.header.id);
    if entry.header.kind != wanted {
        return Err(StoreError::damaged(what(), "it is of another kind"));
    }
    decode(&entry.header, stored).map_err(|reason| StoreError::damaged(what(), reason))
}
