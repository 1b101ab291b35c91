//! A file system on a disk: reads blocks and inodes by number.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::rc::Rc;

use agentiso_core::ports::DiskView;

use super::fields::{joined, le32};
use super::inode::Inode;
use super::journal::{self, Replay};
use super::superblock::{self, ROOT, Superblock};
use crate::change::EntryKind;
use crate::error::Ext4Error;

/// Metadata is read and cached in units of this size, so that neighbouring inodes are read together.
const PIECE: u64 = 16 << 10;
/// Maximum number of cached units.
const PIECES: usize = 4096;
/// Limit on the bytes read, relative to the size of the disk. A sound file system needs each block a few times at most;
/// small ones get some slack.
const READS_PER_BYTE: u64 = 4;
const READS_SLACK: u64 = 64 << 20;

/// An ext4 file system, read through a view of its disk.
pub(crate) struct Volume<'a> {
    view: &'a dyn DiskView,
    size: u64,
    shape: Superblock,
    replay: Replay,
    pieces: RefCell<HashMap<u64, Rc<[u8]>>>,
    /// Remaining bytes that may be read.
    allowance: Cell<u64>,
}

/// A block or record of metadata, in the cache.
pub(crate) struct Piece {
    bytes: Rc<[u8]>,
    range: Range<usize>,
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

impl<'a> Volume<'a> {
    /// Reads the superblock and, if the file system was in use, the journal.
    pub(crate) fn open(view: &'a dyn DiskView) -> Result<Self, Ext4Error> {
        let size = view.size();
        let end = superblock::PLACE + superblock::LENGTH as u64;
        if size < end {
            return Err(Ext4Error::NotExt4 { reason: "it is too small" });
        }
        let mut bytes = [0; superblock::LENGTH];
        let io = |source| Ext4Error::Io { offset: superblock::PLACE, source };
        view.read_at(superblock::PLACE, &mut bytes).map_err(io)?;
        let shape = Superblock::parse(&bytes, size)?;
        let allowance = size.saturating_mul(READS_PER_BYTE).saturating_add(READS_SLACK);
        let mut volume = Self {
            view,
            size,
            shape,
            replay: Replay::default(),
            pieces: RefCell::default(),
            allowance: Cell::new(allowance),
        };
        if volume.shape.needs_recovery() {
            volume.replay = journal::replay(&volume)?;
            // Everything so far, including the superblock, was read without the journal.
            volume.pieces.borrow_mut().clear();
            volume.read(superblock::PLACE, &mut bytes)?;
            volume.shape = Superblock::parse(&bytes, size)?;
        }
        if volume.inode(ROOT)?.kind() != Some(EntryKind::Directory) {
            return Err(Ext4Error::Damaged { inode: ROOT, reason: "the root is not a directory" });
        }
        Ok(volume)
    }

    pub(crate) fn shape(&self) -> &Superblock {
        &self.shape
    }

    /// The blocks whose content comes from the journal.
    pub(crate) fn replayed_blocks(&self) -> impl Iterator<Item = u64> {
        self.replay.blocks()
    }

    /// Whether a range of blocks lies in the data area.
    pub(super) fn has_blocks(&self, first: u64, count: u64) -> bool {
        first > 0 && first.checked_add(count).is_some_and(|end| end <= self.shape.blocks)
    }

    /// The byte offset of an inode on the disk.
    pub(crate) fn inode_offset(&self, number: u32) -> Result<u64, Ext4Error> {
        let damaged = |reason| Ext4Error::Damaged { inode: number, reason };
        let is_ours =
            number == ROOT || number == self.shape.journal_inode || number >= self.shape.first_inode;
        if number == 0 || number > self.shape.inodes || !is_ours {
            return Err(damaged("its number is out of range"));
        }
        let index = number - 1;
        let group = u64::from(index / self.shape.inodes_per_group);
        let within = u64::from(index % self.shape.inodes_per_group) * u64::from(self.shape.inode_size);
        let (block, at) = self.shape.descriptor_place(group);
        let block = self.cached_block(block)?;
        let descriptor = block.get(at..).unwrap_or_default();
        let high = if self.shape.has_wide_descriptors() { le32(descriptor, 0x28) } else { 0 };
        let table = joined(high, le32(descriptor, 0x8));
        if !self.has_blocks(table, within / self.shape.block_size() + 1) {
            return Err(damaged("its inode table lies outside the disk"));
        }
        Ok(table * self.shape.block_size() + within)
    }

    pub(crate) fn inode_length(&self) -> u64 {
        self.shape.inode_size.into()
    }

    /// Reads an inode that is in use.
    pub(crate) fn inode(&self, number: u32) -> Result<Inode, Ext4Error> {
        let raw = self.piece(self.inode_offset(number)?, self.inode_length())?;
        let inode = Inode::new(number, &raw, self.shape.has_large_directories());
        if inode.kind().is_none() || inode.links() == 0 {
            return Err(Ext4Error::Damaged { inode: number, reason: "it is referenced but not in use" });
        }
        Ok(inode)
    }

    /// Reads a block of metadata.
    pub(crate) fn block(&self, number: u64) -> Result<Piece, Ext4Error> {
        self.spend(self.shape.block_size())?;
        self.cached_block(number)
    }

    /// Does not count against the read limit, because group descriptors are needed for every inode.
    fn cached_block(&self, number: u64) -> Result<Piece, Ext4Error> {
        let length = self.shape.block_size();
        match number.checked_mul(length) {
            Some(offset) if number < self.shape.blocks => self.piece(offset, length),
            _ => Err(Ext4Error::Damaged { inode: 0, reason: "a metadata block lies outside the disk" }),
        }
    }

    /// Fills `buffer` with data from `offset`, which must be on the disk.
    pub(crate) fn data(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Ext4Error> {
        self.spend(buffer.len() as u64)?;
        self.read(offset, buffer)
    }

    /// Reads a record that is at most a block long and aligned to its length, so that it never crosses two cache units.
    fn piece(&self, offset: u64, length: u64) -> Result<Piece, Ext4Error> {
        let size = PIECE.max(self.shape.block_size());
        let start = offset - offset % size;
        let within = (offset - start) as usize;
        let range = within..within + length as usize;
        if let Some(bytes) = self.pieces.borrow().get(&start) {
            return Ok(Piece { bytes: bytes.clone(), range });
        }
        let mut bytes = vec![0; size.min(self.size.saturating_sub(start)) as usize];
        self.read(start, &mut bytes)?;
        let bytes: Rc<[u8]> = bytes.into();
        let mut pieces = self.pieces.borrow_mut();
        if pieces.len() >= PIECES {
            pieces.clear();
        }
        pieces.insert(start, bytes.clone());
        Ok(Piece { bytes, range })
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Ext4Error> {
        let io = |offset| move |source| Ext4Error::Io { offset, source };
        self.view.read_at(offset, buffer).map_err(io(offset))?;
        if self.replay.is_empty() || buffer.is_empty() {
            return Ok(());
        }
        let block_size = self.shape.block_size();
        let end = offset + buffer.len() as u64;
        for block in offset / block_size..=(end - 1) / block_size {
            let Some(copy) = self.replay.copy_of(block) else { continue };
            let start = (block * block_size).max(offset);
            let stop = ((block + 1) * block_size).min(end);
            let within = start - block * block_size;
            let Some(target) = buffer.get_mut((start - offset) as usize..(stop - offset) as usize) else {
                continue;
            };
            self.view.read_at(copy.offset + within, target).map_err(io(copy.offset))?;
            copy.restore_escaped(within, target);
        }
        Ok(())
    }

    fn spend(&self, bytes: u64) -> Result<(), Ext4Error> {
        let left = self.allowance.get().checked_sub(bytes).ok_or(Ext4Error::TooLarge {
            what: "bytes to read: its files share their blocks",
            limit: self.size.saturating_mul(READS_PER_BYTE).saturating_add(READS_SLACK),
        })?;
        self.allowance.set(left);
        Ok(())
    }
}
