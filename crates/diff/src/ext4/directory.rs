//! Lists directories.

use super::fields::{le16, le32};
use super::inode::Inode;
use super::map;
use super::volume::Volume;
use super::xattr;
use crate::error::Ext4Error;

const HEADER: usize = 8;

/// The entries of a directory, sorted by the bytes of their names, without `.` and `..`.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    names: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    length: u8,
    inode: u32,
}

impl Listing {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The name and inode number at an index.
    pub(crate) fn get(&self, index: usize) -> Option<(&[u8], u32)> {
        self.entries.get(index).map(|entry| (self.name(entry), entry.inode))
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<u32> {
        let found = self.entries.binary_search_by(|entry| self.name(entry).cmp(name)).ok()?;
        self.entries.get(found).map(|entry| entry.inode)
    }

    fn name(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        self.names.get(start..start + usize::from(entry.length)).unwrap_or_default()
    }
}

/// Lists a directory of at most `limit` entries.
///
/// The hash index of a large directory is stored in blocks that look like unused entries, so reading all blocks
/// sequentially finds everything, with or without an index.
pub(crate) fn list(volume: &Volume<'_>, inode: &Inode, limit: u64) -> Result<Listing, Ext4Error> {
    let mut reader = Reader { inode: inode.number, limit, listing: Listing::default() };
    if inode.has_inline_data() {
        // The first four bytes are the inode number of the parent, instead of `.` and `..`.
        reader.block(inode.block_field().get(4..).unwrap_or_default())?;
        reader.block(&xattr::inline_tail(inode)?)?;
    } else {
        let end = inode.size() / volume.shape().block_size();
        for run in map::runs(volume, inode)? {
            for index in 0..run.blocks.min(end.saturating_sub(run.logical)) {
                reader.block(&volume.block(run.physical + index)?)?;
            }
        }
    }
    reader.finish()
}

struct Reader {
    inode: u32,
    limit: u64,
    listing: Listing,
}

impl Reader {
    fn block(&mut self, bytes: &[u8]) -> Result<(), Ext4Error> {
        let mut at = 0;
        while at + HEADER <= bytes.len() {
            let length = match le16(bytes, at + 4) {
                // A length of 64 KiB does not fit in the field.
                0 | u16::MAX if bytes.len() > usize::from(u16::MAX) => bytes.len() - at,
                length => usize::from(length),
            };
            let name = bytes.get(at + HEADER..).and_then(|rest| rest.get(..usize::from(*bytes.get(at + 6)?)));
            let (inode, is_sound) = (le32(bytes, at), length >= HEADER && at + length <= bytes.len());
            match name {
                _ if !is_sound => return Err(self.damaged("a directory entry has an impossible length")),
                _ if inode == 0 => {}
                Some(name) if HEADER + name.len() <= length => self.entry(name, inode)?,
                _ => return Err(self.damaged("a name does not fit its directory entry")),
            }
            at += length;
        }
        Ok(())
    }

    fn entry(&mut self, name: &[u8], inode: u32) -> Result<(), Ext4Error> {
        if matches!(name, b"." | b"..") {
            return Ok(());
        }
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            return Err(self.damaged("a name contains a slash or a NUL byte"));
        }
        if self.listing.entries.len() as u64 >= self.limit {
            return Err(Ext4Error::TooLarge { what: "entries", limit: self.limit });
        }
        let (Ok(start), Ok(length)) = (u32::try_from(self.listing.names.len()), u8::try_from(name.len()))
        else {
            return Err(Ext4Error::TooLarge {
                what: "bytes of names in a directory",
                limit: u32::MAX.into(),
            });
        };
        self.listing.names.extend_from_slice(name);
        self.listing.entries.push(Entry { start, length, inode });
        Ok(())
    }

    fn finish(mut self) -> Result<Listing, Ext4Error> {
        let mut entries = std::mem::take(&mut self.listing.entries);
        entries.sort_unstable_by(|one, other| self.listing.name(one).cmp(self.listing.name(other)));
        if entries.array_windows().any(|[one, next]| self.listing.name(one) == self.listing.name(next)) {
            return Err(self.damaged("a directory contains a name twice"));
        }
        self.listing.entries = entries;
        Ok(self.listing)
    }

    fn damaged(&self, reason: &'static str) -> Ext4Error {
        Ext4Error::Damaged { inode: self.inode, reason }
    }
}
