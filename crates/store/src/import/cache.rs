//! What an import remembers, so that the next one need not read files that did not change.
//!
//! A file is the same if inode, size, modification time and change time are. A file that was changed less than two seconds
//! before the import is not remembered: it could be changed again without a new time stamp.

use std::collections::HashMap;

use rustix::fs::Stat;

use crate::content::{read_content, store_bytes};
use crate::error::StoreError;
use crate::id::ObjectId;
use crate::node::Content;
use crate::session::Session;
use crate::store::Objects;

const MAGIC: &[u8; 8] = b"AiSSTAT1";
const RECORD: usize = 4 * 8 + 1 + ObjectId::LEN;
const MARGIN: i64 = 2_000_000_000;
const MAX_LEN: usize = 4 << 30;

/// Contents of files by what `stat` says about them, on one file system.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StatCache {
    device: u64,
    records: HashMap<u64, Record>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Record {
    size: u64,
    mtime: i64,
    ctime: i64,
    content: Content,
}

impl StatCache {
    pub(super) fn new(device: u64) -> Self {
        Self { device, records: HashMap::new() }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether it knows no file.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The content of a file that did not change.
    pub(super) fn find(&self, stat: &Stat) -> Option<Content> {
        let record = self.records.get(&stat.st_ino)?;
        let is_same = stat.st_dev == self.device
            && record.size == stat.st_size as u64
            && Some(record.mtime) == nanos(stat.st_mtime, stat.st_mtime_nsec)
            && Some(record.ctime) == nanos(stat.st_ctime, stat.st_ctime_nsec);
        is_same.then_some(record.content)
    }

    /// What to remember about a file that an import read at `now`.
    pub(super) fn record(stat: &Stat, content: Content, now: i64) -> Option<Record> {
        let mtime = nanos(stat.st_mtime, stat.st_mtime_nsec)?;
        let ctime = nanos(stat.st_ctime, stat.st_ctime_nsec)?;
        let is_settled = mtime.max(ctime) < now - MARGIN;
        is_settled.then_some(Record { size: stat.st_size as u64, mtime, ctime, content })
    }

    pub(super) fn insert(&mut self, device: u64, inode: u64, record: Record) {
        if device == self.device {
            self.records.insert(inode, record);
        }
    }

    /// Stores the cache. It does not keep the contents it names: an import checks that they are still there.
    pub fn store(&self, session: &Session) -> Result<(u64, Content), StoreError> {
        let bytes = self.encode();
        Ok((bytes.len() as u64, store_bytes(session, &bytes)?))
    }

    /// Reads a stored cache.
    pub fn load(objects: &dyn Objects, size: u64, content: Content) -> Result<Self, StoreError> {
        Self::decode(&read_content(objects, content, size, MAX_LEN)?)
    }

    /// Encodes the cache: magic, device, number, and records of fixed size, sorted by inode.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24 + self.records.len() * RECORD);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.device.to_le_bytes());
        bytes.extend_from_slice(&(self.records.len() as u64).to_le_bytes());
        let mut records: Vec<_> = self.records.iter().collect();
        records.sort_unstable_by_key(|(inode, _)| **inode);
        for (inode, record) in records {
            bytes.extend_from_slice(&inode.to_le_bytes());
            bytes.extend_from_slice(&record.size.to_le_bytes());
            bytes.extend_from_slice(&record.mtime.to_le_bytes());
            bytes.extend_from_slice(&record.ctime.to_le_bytes());
            let (tag, id) = match record.content {
                Content::Empty => (0, [0; ObjectId::LEN]),
                Content::Blob(id) => (1, *id.as_bytes()),
                Content::Chunked(id) => (2, *id.as_bytes()),
            };
            bytes.push(tag);
            bytes.extend_from_slice(&id);
        }
        bytes
    }

    /// Decodes a cache.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        Self::parse(bytes).ok_or_else(|| StoreError::damaged("the cache of an import", "it is malformed"))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(MAGIC)?;
        let (device, bytes) = bytes.split_first_chunk()?;
        let (count, bytes) = bytes.split_first_chunk()?;
        let (records, rest) = bytes.as_chunks::<RECORD>();
        if records.len() as u64 != u64::from_le_bytes(*count) || !rest.is_empty() {
            return None;
        }
        let mut cache = Self::new(u64::from_le_bytes(*device));
        for record in records {
            let (inode, record) = record.split_first_chunk()?;
            let (size, record) = record.split_first_chunk()?;
            let (mtime, record) = record.split_first_chunk()?;
            let (ctime, record) = record.split_first_chunk()?;
            let (tag, id) = record.split_first()?;
            let id = ObjectId::from_bytes(id.try_into().ok()?);
            let content = match tag {
                0 => Content::Empty,
                1 => Content::Blob(id),
                2 => Content::Chunked(id),
                _ => return None,
            };
            let record = Record {
                size: u64::from_le_bytes(*size),
                mtime: i64::from_le_bytes(*mtime),
                ctime: i64::from_le_bytes(*ctime),
                content,
            };
            cache.records.insert(u64::from_le_bytes(*inode), record);
        }
        Some(cache)
    }
}

fn nanos(seconds: i64, nanos: u64) -> Option<i64> {
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos as i64)
}
