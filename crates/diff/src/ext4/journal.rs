//! Reads the journal of a file system that was in use: blocks that were committed but not yet written in place.
//!
//! Committed blocks are not applied. Their locations in the journal are recorded, and reads of those blocks are
//! redirected there. Checksums are not verified: a transaction is valid if its commit block has the right sequence
//! number, which the order of writes guarantees unless commits are asynchronous.

use std::collections::HashMap;

use super::fields::{be16, be32, joined};
use super::map::{self, Run};
use super::volume::Volume;
use crate::error::Ext4Error;

const MAGIC: u32 = 0xc03b_3998;
const HEADER: usize = 12;
const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const SUPERBLOCK_V1: u32 = 3;
const SUPERBLOCK_V2: u32 = 4;
const REVOKE: u32 = 5;
const FEATURE_REVOKE: u32 = 0x1;
const FEATURE_64BIT: u32 = 0x2;
const FEATURE_CHECKSUM_V2: u32 = 0x8;
const FEATURE_CHECKSUM_V3: u32 = 0x10;
const TAG_ESCAPED: u32 = 1;
const TAG_SAME_UUID: u32 = 2;
const TAG_LAST: u32 = 8;

/// The blocks whose current content is in the journal.
#[derive(Debug, Default)]
pub(super) struct Replay {
    copies: HashMap<u64, Copied>,
}

/// A block's copy in the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    /// Byte offset of the copy on the disk.
    pub(super) offset: u64,
    /// Whether the first bytes looked like a journal header and were replaced by zeros.
    escaped: bool,
}

impl Copied {
    /// Restores escaped bytes, if `bytes`, which start at offset `within` of the block, contain them.
    pub(super) fn restore_escaped(self, within: u64, bytes: &mut [u8]) {
        if self.escaped {
            let magic = MAGIC.to_be_bytes();
            let rest =
                usize::try_from(within).ok().and_then(|within| magic.get(within..)).unwrap_or_default();
            bytes.iter_mut().zip(rest).for_each(|(byte, original)| *byte = *original);
        }
    }
}

impl Replay {
    pub(super) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    pub(super) fn copy_of(&self, block: u64) -> Option<Copied> {
        self.copies.get(&block).copied()
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = u64> {
        self.copies.keys().copied()
    }
}

/// Finds the committed blocks in the journal of a file system.
pub(super) fn replay(volume: &Volume<'_>) -> Result<Replay, Ext4Error> {
    let number = volume.shape().journal_inode;
    if number == 0 {
        return Err(Ext4Error::NeedsRecovery { reason: "it is on another disk" });
    }
    let runs = map::runs(volume, &volume.inode(number)?)?;
    let log = Log::open(volume, runs)?;
    if log.start == 0 {
        return Ok(Replay::default());
    }
    log.scan()?.resolve(volume)
}

/// The journal as a ring of blocks.
struct Log<'v, 'd> {
    volume: &'v Volume<'d>,
    runs: Vec<Run>,
    features: u32,
    first: u32,
    length: u32,
    start: u32,
    sequence: u32,
}

impl<'v, 'd> Log<'v, 'd> {
    fn open(volume: &'v Volume<'d>, runs: Vec<Run>) -> Result<Self, Ext4Error> {
        let mut log = Self { volume, runs, features: 0, first: 0, length: 1, start: 0, sequence: 0 };
        let mut bytes = vec![0; volume.shape().block_size() as usize];
        log.read(0, &mut bytes)?;
        let kind = be32(&bytes, 4);
        if be32(&bytes, 0) != MAGIC || !matches!(kind, SUPERBLOCK_V1 | SUPERBLOCK_V2) {
            return Err(log.damaged("the journal has no superblock"));
        }
        if kind == SUPERBLOCK_V2 {
            log.features = be32(&bytes, 0x28);
        }
        let known = FEATURE_REVOKE | FEATURE_64BIT | FEATURE_CHECKSUM_V2 | FEATURE_CHECKSUM_V3;
        if log.features & !known != 0 {
            return Err(Ext4Error::NeedsRecovery { reason: "it uses fast or asynchronous commits" });
        }
        log.length = be32(&bytes, 0x10);
        log.first = be32(&bytes, 0x14);
        log.sequence = be32(&bytes, 0x18);
        log.start = be32(&bytes, 0x1c);
        let is_sound = u64::from(be32(&bytes, 0xc)) == volume.shape().block_size()
            && log.first > 0
            && log.first < log.length
            && (log.start == 0 || (log.first..log.length).contains(&log.start));
        if is_sound { Ok(log) } else { Err(log.damaged("the journal's superblock is invalid")) }
    }

    fn scan(&self) -> Result<Found, Ext4Error> {
        let mut found = Found::default();
        let mut open = Found::default();
        let mut bytes = vec![0; self.volume.shape().block_size() as usize];
        let mut sequence = self.sequence;
        let mut at = self.start;
        // Each iteration advances by at least one block, and stops after one round.
        let mut left = self.length - self.first;
        while left > 0 {
            self.read(at, &mut bytes)?;
            if be32(&bytes, 0) != MAGIC || be32(&bytes, 8) != sequence {
                break;
            }
            let mut steps = 1;
            match be32(&bytes, 4) {
                DESCRIPTOR => {
                    for (target, escaped) in self.tags(&bytes)? {
                        let copy = Copied { offset: self.place(self.after(at, steps))?, escaped };
                        open.copies.push((sequence, target, copy));
                        steps += 1;
                        if steps > left {
                            return Ok(found);
                        }
                    }
                }
                REVOKE => self.revoked(&bytes, |block| open.revoked.push((sequence, block))),
                COMMIT => {
                    found.copies.append(&mut open.copies);
                    found.revoked.append(&mut open.revoked);
                    sequence = sequence.wrapping_add(1);
                }
                _ => break,
            }
            at = self.after(at, steps);
            left -= steps;
        }
        Ok(found)
    }

    /// The blocks listed in a descriptor, and whether each is escaped.
    fn tags(&self, bytes: &[u8]) -> Result<Vec<(u64, bool)>, Ext4Error> {
        let wide = self.features & FEATURE_64BIT != 0;
        let v3 = self.features & FEATURE_CHECKSUM_V3 != 0;
        let v2 = self.features & FEATURE_CHECKSUM_V2 != 0;
        let length = match (v3, v2, wide) {
            (true, _, _) => 16,
            (_, true, true) => 14,
            (_, true, false) => 10,
            (_, _, true) => 12,
            _ => 8,
        };
        let end = bytes.len() - if v2 || v3 { 4 } else { 0 };
        let mut tags = Vec::new();
        let mut at = HEADER;
        while at + length <= end {
            let flags = if v3 { be32(bytes, at + 4) } else { u32::from(be16(bytes, at + 6)) };
            let high = if wide { be32(bytes, at + 8) } else { 0 };
            tags.push((joined(high, be32(bytes, at)), flags & TAG_ESCAPED != 0));
            at += length + if flags & TAG_SAME_UUID == 0 { 16 } else { 0 };
            if flags & TAG_LAST != 0 {
                return Ok(tags);
            }
        }
        Err(self.damaged("a list of blocks in the journal is not terminated"))
    }

    fn revoked(&self, bytes: &[u8], mut each: impl FnMut(u64)) {
        let length = if self.features & FEATURE_64BIT != 0 { 8 } else { 4 };
        let end = (be32(bytes, HEADER) as usize).min(bytes.len());
        let list = bytes.get(HEADER + 4..end).unwrap_or_default();
        for entry in list.chunks_exact(length) {
            each(if length == 8 { joined(be32(entry, 0), be32(entry, 4)) } else { be32(entry, 0).into() });
        }
    }

    fn after(&self, at: u32, steps: u32) -> u32 {
        let ring = self.length - self.first;
        self.first + ((u64::from(at - self.first) + u64::from(steps)) % u64::from(ring)) as u32
    }

    fn place(&self, block: u32) -> Result<u64, Ext4Error> {
        let block = u64::from(block);
        let index = self.runs.partition_point(|run| run.logical + run.blocks <= block);
        match self.runs.get(index).filter(|run| run.logical <= block) {
            Some(run) => Ok((run.physical + (block - run.logical)) * self.volume.shape().block_size()),
            None => Err(self.damaged("the journal has a hole")),
        }
    }

    fn read(&self, block: u32, buffer: &mut [u8]) -> Result<(), Ext4Error> {
        self.volume.data(self.place(block)?, buffer)
    }

    fn damaged(&self, reason: &'static str) -> Ext4Error {
        Ext4Error::Damaged { inode: self.volume.shape().journal_inode, reason }
    }
}

/// Blocks and revocations in the journal, oldest first, each with its transaction's sequence number.
#[derive(Default)]
struct Found {
    copies: Vec<(u32, u64, Copied)>,
    revoked: Vec<(u32, u64)>,
}

impl Found {
    /// Keeps the latest copy of each block, unless the block was revoked later.
    fn resolve(self, volume: &Volume<'_>) -> Result<Replay, Ext4Error> {
        let mut last_revoked: HashMap<u64, u32> = HashMap::new();
        for (sequence, block) in self.revoked {
            last_revoked.insert(block, sequence);
        }
        let mut copies = HashMap::new();
        for (sequence, block, copy) in self.copies {
            if block >= volume.shape().blocks {
                return Err(Ext4Error::Damaged {
                    inode: volume.shape().journal_inode,
                    reason: "the journal changes a block that is not on the disk",
                });
            }
            // Sequence numbers wrap around, so compare their distance.
            let is_later = |revoked: &u32| sequence.wrapping_sub(*revoked).cast_signed() > 0;
            if last_revoked.get(&block).is_none_or(is_later) {
                copies.insert(block, copy);
            }
        }
        Ok(Replay { copies })
    }
}
