//! The ranges of two disks that are known to have the same bytes, because both store them in the same place.

use agentiso_core::ports::DiskView;

use crate::error::{DiffError, Ext4Error};

/// Beyond this many differing ranges, small equal gaps between them are dropped. That costs reads, never correctness.
const MAX_DIRTY: usize = 1 << 20;

/// Complement of a sorted list of ranges that may differ.
#[derive(Debug, Default)]
pub(super) struct Clean {
    dirty: Vec<(u64, u64)>,
    /// Size of the smaller disk.
    end: u64,
    max: usize,
    /// Gaps up to this length are merged into the surrounding ranges.
    gap: u64,
}

impl Clean {
    /// Compares where both disks store their bytes, without reading any.
    pub(super) fn find(before: &dyn DiskView, after: &dyn DiskView) -> Result<Self, DiffError> {
        let end = before.size().min(after.size());
        let mut clean = Self { dirty: Vec::new(), end, max: MAX_DIRTY, gap: 0 };
        let mut at = 0;
        while at < end {
            let io = |source| Ext4Error::Io { offset: at, source };
            let one = before.extent_at(at).map_err(io).map_err(DiffError::Before)?;
            let other = after.extent_at(at).map_err(io).map_err(DiffError::After)?;
            let length = one.length.min(other.length).clamp(1, end - at);
            if !one.surely_equals(&other) {
                clean.append(at, at + length);
            }
            at += length;
        }
        Ok(clean)
    }

    /// Whether every byte of a range is known to be the same on both disks.
    pub(super) fn covers(&self, offset: u64, length: u64) -> bool {
        let Some(end) = offset.checked_add(length).filter(|end| *end <= self.end) else { return false };
        let next = self.dirty.partition_point(|(_, dirty_end)| *dirty_end <= offset);
        self.dirty.get(next).is_none_or(|(start, _)| *start >= end)
    }

    /// Whether the disks are known to be identical.
    pub(super) fn is_everything(&self, before: &dyn DiskView, after: &dyn DiskView) -> bool {
        self.dirty.is_empty() && before.size() == after.size()
    }

    /// Marks more ranges, in any order, as possibly different.
    pub(super) fn exclude(&mut self, mut ranges: Vec<(u64, u64)>) {
        ranges.append(&mut self.dirty);
        ranges.sort_unstable();
        for (start, end) in ranges {
            self.append(start, end);
        }
    }

    /// Adds a range that begins no earlier than the last one.
    fn append(&mut self, start: u64, end: u64) {
        match self.dirty.last_mut() {
            Some((_, last)) if start <= last.saturating_add(self.gap) => *last = (*last).max(end),
            _ => self.dirty.push((start, end)),
        }
        while self.dirty.len() > self.max {
            self.gap = (self.gap * 2).max(4096);
            let gap = self.gap;
            self.dirty.dedup_by(|next, kept| {
                let is_near = next.0 <= kept.1.saturating_add(gap);
                if is_near {
                    kept.1 = kept.1.max(next.1);
                }
                is_near
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_marked_range_is_never_clean_even_when_gaps_are_merged(
            mut ranges in proptest::collection::vec((0u64..1 << 20, 1u64..20_000), 0..40),
            late in proptest::collection::vec((0u64..1 << 20, 1u64..20_000), 0..10),
            max in 1usize..50,
            probe in (0u64..1 << 20, 1u64..5_000),
        ) {
            ranges.sort_unstable();
            let mut clean = Clean { dirty: Vec::new(), end: 2 << 20, max, gap: 0 };
            for (start, length) in &ranges {
                clean.append(*start, start + length);
            }
            clean.exclude(late.iter().map(|(start, length)| (*start, start + length)).collect());
            let touches = |(start, length): &(u64, u64)| *start < probe.0 + probe.1 && probe.0 < start + length;
            let is_marked = ranges.iter().chain(&late).any(touches);
            if is_marked {
                prop_assert!(!clean.covers(probe.0, probe.1));
            } else if max >= 50 {
                prop_assert!(clean.covers(probe.0, probe.1));
            }
            prop_assert!(clean.dirty.len() <= max);
            prop_assert!(!clean.covers((2 << 20) - 1, 2));
        }
    }
}
