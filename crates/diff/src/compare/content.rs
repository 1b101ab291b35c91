//! Compares the bytes of two files.

use super::pair::Pair;
use crate::error::DiffError;
use crate::ext4::{Content, Inode, Place};

const BUFFER: u64 = 256 << 10;

impl Pair<'_> {
    /// Compares files of the same size byte by byte, except where both use the same blocks or have holes.
    pub(super) fn differ_when_read(&self, before: &Inode, after: &Inode) -> Result<bool, DiffError> {
        let one = Content::of(&self.before, before).map_err(DiffError::Before)?;
        let other = Content::of(&self.after, after).map_err(DiffError::After)?;
        let size = before.size();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < size {
            let (here, there) = (one.part(at, size), other.part(at, size));
            let length = here.length.min(there.length);
            let is_surely_same = match (here.place, there.place) {
                (Place::Nowhere, Place::Nowhere) => true,
                (Place::Disk(offset), Place::Disk(other)) => {
                    offset == other && self.clean.covers(offset, length)
                }
                _ => false,
            };
            if is_surely_same {
                at += length;
                continue;
            }
            let length = length.min(BUFFER);
            one.fill(here.place, length, &mut first).map_err(DiffError::Before)?;
            other.fill(there.place, length, &mut second).map_err(DiffError::After)?;
            if first != second {
                return Ok(true);
            }
            at += length;
        }
        Ok(false)
    }
}
