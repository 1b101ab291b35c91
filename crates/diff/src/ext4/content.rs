//! The content of a file or the target of a link, whether inline or in blocks.

use super::inode::Inode;
use super::map::{self, Run};
use super::volume::Volume;
use super::xattr;
use crate::error::Ext4Error;

const BUFFER: u64 = 256 << 10;

/// The data of an inode.
pub(crate) struct Content<'v, 'd> {
    volume: &'v Volume<'d>,
    kept: Kept,
}

enum Kept {
    Inline(Vec<u8>),
    Runs(Vec<Run>),
}

/// A range of a file that is stored contiguously.
pub(crate) struct Part {
    pub(crate) place: Place,
    pub(crate) length: u64,
}

/// Where a range is stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// A hole, which reads as zeros.
    Nowhere,
    /// At this offset of the inline data.
    Inode(usize),
    /// At this offset of the disk.
    Disk(u64),
}

impl<'v, 'd> Content<'v, 'd> {
    pub(crate) fn of(volume: &'v Volume<'d>, inode: &Inode) -> Result<Self, Ext4Error> {
        let kept = if inode.is_short_link() {
            Kept::Inline(inode.block_field().to_vec())
        } else if inode.has_inline_data() {
            Kept::Inline(xattr::inline_data(inode)?)
        } else {
            Kept::Runs(map::runs(volume, inode)?)
        };
        Ok(Self { volume, kept })
    }

    /// Reads the first `length` bytes.
    pub(crate) fn read(&self, length: u64) -> Result<Vec<u8>, Ext4Error> {
        let mut bytes = Vec::new();
        let mut buffer = Vec::new();
        while (bytes.len() as u64) < length {
            let part = self.part(bytes.len() as u64, length);
            self.fill(part.place, part.length.min(BUFFER), &mut buffer)?;
            bytes.extend_from_slice(&buffer);
        }
        Ok(bytes)
    }

    /// The longest contiguous part in `at..end`. `at` must be less than `end`.
    pub(crate) fn part(&self, at: u64, end: u64) -> Part {
        let (place, stop) = match &self.kept {
            Kept::Inline(bytes) if at < bytes.len() as u64 => (Place::Inode(at as usize), bytes.len() as u64),
            Kept::Inline(_) => (Place::Nowhere, end),
            Kept::Runs(runs) => self.place_among(runs, at).unwrap_or((Place::Nowhere, end)),
        };
        Part { place, length: stop.min(end) - at }
    }

    fn place_among(&self, runs: &[Run], at: u64) -> Option<(Place, u64)> {
        let size = self.volume.shape().block_size();
        let next = runs.partition_point(|run| (run.logical + run.blocks) * size <= at);
        let run = runs.get(next)?;
        let start = run.logical * size;
        Some(match at.checked_sub(start) {
            Some(within) => (Place::Disk(run.physical * size + within), start + run.blocks * size),
            None => (Place::Nowhere, start),
        })
    }

    /// Fills `buffer` with the `length` bytes at `place`.
    pub(crate) fn fill(&self, place: Place, length: u64, buffer: &mut Vec<u8>) -> Result<(), Ext4Error> {
        buffer.clear();
        buffer.resize(length as usize, 0);
        match (&self.kept, place) {
            (_, Place::Disk(offset)) => self.volume.data(offset, buffer)?,
            (Kept::Inline(bytes), Place::Inode(at)) => {
                let kept = bytes.get(at..).unwrap_or_default();
                buffer.iter_mut().zip(kept).for_each(|(byte, kept)| *byte = *kept);
            }
            _ => {}
        }
        Ok(())
    }
}
