//! Maps the data of an inode to blocks.

use super::fields::{joined, le16, le32};
use super::inode::Inode;
use super::volume::Volume;
use crate::error::Ext4Error;

/// Limit on the number of fragments of a file.
const MAX_RUNS: usize = 4 << 20;
const MAGIC_EXTENTS: u16 = 0xf30a;
const MAX_DEPTH: u16 = 5;
/// Longer extents are preallocated but unwritten, and read as zeros.
const MAX_WRITTEN: u16 = 32768;
const DIRECT: usize = 12;

/// Written blocks that are contiguous in the file and on the disk. Gaps between runs read as zeros.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Run {
    pub(crate) logical: u64,
    pub(crate) physical: u64,
    pub(crate) blocks: u64,
}

/// Returns the written runs of an inode, in file order.
pub(crate) fn runs(volume: &Volume<'_>, inode: &Inode) -> Result<Vec<Run>, Ext4Error> {
    let mut builder = Builder { volume, inode: inode.number, runs: Vec::new() };
    if inode.has_extents() {
        let depth = le16(inode.block_field(), 6);
        if depth > MAX_DEPTH {
            return Err(builder.damaged("its extent tree is too deep"));
        }
        builder.extents(inode.block_field(), depth, 0..1 << 32)?;
    } else {
        let end = inode.size().div_ceil(volume.shape().block_size());
        builder.block_map(inode.block_field(), end)?;
    }
    Ok(builder.runs)
}

struct Builder<'v, 'd> {
    volume: &'v Volume<'d>,
    inode: u32,
    runs: Vec<Run>,
}

impl Builder<'_, '_> {
    /// Reads a node of an extent tree that may only describe `range`. Siblings have disjoint ranges, so no part of a
    /// tree is read twice and it cannot contain cycles.
    fn extents(&mut self, node: &[u8], depth: u16, range: std::ops::Range<u64>) -> Result<(), Ext4Error> {
        if le16(node, 0) != MAGIC_EXTENTS || le16(node, 6) != depth {
            return Err(self.damaged("its extent tree is invalid"));
        }
        let count = usize::from(le16(node, 2));
        let entries =
            node.get(12..12 + 12 * count).ok_or_else(|| self.damaged("an extent node overflows"))?;
        let mut low = range.start;
        let (entries, _) = entries.as_chunks::<12>();
        for (index, entry) in entries.iter().enumerate() {
            let logical = u64::from(le32(entry, 0));
            if logical < low || logical >= range.end {
                return Err(self.damaged("its extents are out of order"));
            }
            if depth == 0 {
                low = self.extent(entry, logical, range.end)?;
            } else {
                let next = entries.get(index + 1).map_or(range.end, |next| u64::from(le32(next, 0)));
                let child = joined(u32::from(le16(entry, 8)), le32(entry, 4));
                if next <= logical || next > range.end || !self.volume.has_blocks(child, 1) {
                    return Err(self.damaged("its extent index is invalid"));
                }
                let child = self.volume.block(child)?;
                self.extents(&child, depth - 1, logical..next)?;
                low = next;
            }
        }
        Ok(())
    }

    fn extent(&mut self, entry: &[u8], logical: u64, limit: u64) -> Result<u64, Ext4Error> {
        let length = le16(entry, 4);
        let is_written = length <= MAX_WRITTEN;
        let blocks = u64::from(if is_written { length } else { length - MAX_WRITTEN });
        let physical = joined(u32::from(le16(entry, 6)), le32(entry, 8));
        let end = logical + blocks;
        if blocks == 0 || end > limit || !self.volume.has_blocks(physical, blocks) {
            return Err(self.damaged("an extent lies outside the disk"));
        }
        if is_written {
            self.push(Run { logical, physical, blocks })?;
        }
        Ok(end)
    }

    /// Reads the indirect block map of an inode without extents, up to block `end`.
    fn block_map(&mut self, field: &[u8], end: u64) -> Result<(), Ext4Error> {
        let mut logical = 0;
        for (index, pointer) in field.as_chunks::<4>().0.iter().enumerate() {
            let level = (index + 1).saturating_sub(DIRECT) as u32;
            self.pointed(u64::from(u32::from_le_bytes(*pointer)), level, &mut logical, end)?;
        }
        Ok(())
    }

    fn pointed(&mut self, block: u64, level: u32, logical: &mut u64, end: u64) -> Result<(), Ext4Error> {
        let fan_out = self.volume.shape().block_size() / 4;
        if *logical >= end {
            return Ok(());
        }
        if block == 0 {
            *logical += fan_out.pow(level);
            return Ok(());
        }
        if !self.volume.has_blocks(block, 1) {
            return Err(self.damaged("a block lies outside the disk"));
        }
        if level == 0 {
            self.push(Run { logical: *logical, physical: block, blocks: 1 })?;
            *logical += 1;
            return Ok(());
        }
        let table = self.volume.block(block)?;
        for pointer in table.as_chunks::<4>().0 {
            self.pointed(u64::from(u32::from_le_bytes(*pointer)), level - 1, logical, end)?;
        }
        Ok(())
    }

    fn push(&mut self, run: Run) -> Result<(), Ext4Error> {
        if let Some(last) = self.runs.last_mut()
            && last.logical + last.blocks == run.logical
            && last.physical + last.blocks == run.physical
        {
            last.blocks += run.blocks;
            return Ok(());
        }
        if self.runs.len() >= MAX_RUNS {
            return Err(Ext4Error::TooLarge { what: "fragments in one file", limit: MAX_RUNS as u64 });
        }
        self.runs.push(run);
        Ok(())
    }

    fn damaged(&self, reason: &'static str) -> Ext4Error {
        Ext4Error::Damaged { inode: self.inode, reason }
    }
}
