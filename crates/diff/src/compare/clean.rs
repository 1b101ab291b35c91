//! Which parts of two disks surely hold the same bytes.

use agentiso_core::ports::DiskView;

use crate::error::{DiffError, Ext4Error};

/// Beyond this many pieces that differ, small equal gaps between them are forgotten: that costs reading, never
/// exactness.
const MAX_DIRTY: usize = 1 << 20;

/// Everything outside a sorted list of pieces that may differ.
#[derive(Debug, Default)]
pub(super) struct Clean {
    dirty: Vec<(u64, u64)>,
    /// Where the shorter disk ends.
    end: u64,
    max: usize,
    /// Gaps up to this length are not worth a piece of their own.
    gap: u64,
}

impl Clean {
    /// Asks both disks where they keep their bytes; reads none.
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

    /// Whether every byte of a range is surely the same on both disks.
    pub(super) fn covers(&self, offset: u64, length: u64) -> bool {
        let Some(end) = offset.checked_add(length).filter(|end| *end <= self.end) else { return false };
        let next = self.dirty.partition_point(|(_, dirty_end)| *dirty_end <= offset);
        self.dirty.get(next).is_none_or(|(start, _)| *start >= end)
    }

    /// Whether the disks are the same altogether.
    pub(super) fn is_everything(&self, before: &dyn DiskView, after: &dyn DiskView) -> bool {
        self.dirty.is_empty() && before.size() == after.size()
    }

    /// Marks more ranges as possibly different, in any order.
    pub(super) fn exclude(&mut self, mut ranges: Vec<(u64, u64)>) {
        ranges.append(&mut self.dirty);
        ranges.sort_unstable();
        for (start, end) in ranges {
            self.append(start, end);
        }
    }

    /// Adds a range that begins no earlier than the last.
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
        fn what_was_marked_is_never_clean_however_little_is_remembered(
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
