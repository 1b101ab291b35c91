//! A ring buffer of the newest bytes of an output.

use std::collections::VecDeque;

/// Minimum capacity of a non-empty ring.
const SMALLEST: usize = 4096;

/// The newest bytes of an output, with the total number of bytes written so far.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    bytes: VecDeque<u8>,
    end: u64,
}

impl Ring {
    /// Creates an empty ring for an output that already has `end` bytes.
    pub(crate) fn beginning_at(end: u64) -> Self {
        Self { bytes: VecDeque::new(), end }
    }

    /// Offset of the first byte kept.
    pub(crate) fn first(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    /// Total number of bytes written.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// How much the memory would grow if `more` bytes were pushed with this `limit`, a power of two.
    pub(crate) fn growth(&self, more: usize, limit: usize) -> usize {
        capacity_for(self.bytes.len() + more, limit).saturating_sub(self.bytes.capacity())
    }

    /// Appends bytes and drops the oldest beyond `limit`.
    pub(crate) fn push(&mut self, bytes: &[u8], limit: usize) {
        self.end += bytes.len() as u64;
        let kept = &bytes[bytes.len().saturating_sub(limit)..];
        let excess = (self.bytes.len() + kept.len()).saturating_sub(limit);
        self.bytes.drain(..excess.min(self.bytes.len()));
        let wanted = capacity_for(self.bytes.len() + kept.len(), limit);
        self.bytes.reserve_exact(wanted.saturating_sub(self.bytes.len()));
        self.bytes.extend(kept);
    }

    /// Frees memory beyond `limit`, dropping the oldest bytes.
    pub(crate) fn shrink(&mut self, limit: usize) {
        if self.bytes.capacity() > limit {
            self.bytes.drain(..self.bytes.len().saturating_sub(limit));
            self.bytes.shrink_to(limit);
        }
    }

    /// Reads at most `max` bytes starting at `from`, or at the nearest offset that is kept. Returns the actual offset
    /// too.
    pub(crate) fn read(&self, from: u64, max: usize) -> (u64, Vec<u8>) {
        let from = from.clamp(self.first(), self.end);
        let skipped = usize::try_from(from - self.first()).unwrap_or(usize::MAX);
        (from, self.bytes.range(skipped..).take(max).copied().collect())
    }
}

fn capacity_for(len: usize, limit: usize) -> usize {
    if len == 0 { 0 } else { len.next_power_of_two().max(SMALLEST).min(limit) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 8192;

    #[test]
    fn an_offset_out_of_range_becomes_the_nearest_in_range() {
        let mut ring = Ring::default();
        ring.push(&[7; 10_000], LIMIT);
        assert_eq!((ring.first(), ring.end()), (10_000 - LIMIT as u64, 10_000));
        assert_eq!(ring.read(0, 3), (ring.first(), vec![7; 3]));
        assert_eq!(ring.read(u64::MAX, 3), (10_000, Vec::new()));
    }

    #[test]
    fn shrinking_keeps_the_newest_bytes() {
        let mut ring = Ring::default();
        ring.push(&[1; 4096], LIMIT);
        ring.push(&[2; 4096], LIMIT);
        ring.shrink(4096);
        assert_eq!((ring.first(), ring.memory()), (4096, 4096));
        assert_eq!(ring.read(0, LIMIT), (4096, vec![2; 4096]));
    }

    proptest! {
        #[test]
        fn the_newest_bytes_are_kept_within_the_predicted_memory(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6000), 0..12),
            from in 0_u64..40_000,
            max in 0_usize..20_000,
        ) {
            let mut ring = Ring::default();
            let mut all = Vec::new();
            for piece in &pieces {
                let promised = ring.memory() + ring.growth(piece.len(), LIMIT);
                ring.push(piece, LIMIT);
                all.extend_from_slice(piece);
                prop_assert!(ring.memory() <= promised && ring.memory() <= LIMIT);
            }
            prop_assert_eq!(ring.end(), all.len() as u64);
            prop_assert_eq!(ring.first(), all.len().saturating_sub(LIMIT) as u64);
            let (at, read) = ring.read(from, max);
            let at_index = usize::try_from(at).unwrap();
            prop_assert_eq!(at, from.clamp(ring.first(), ring.end()));
            prop_assert_eq!(&read, &all[at_index..all.len().min(at_index + max)]);
        }
    }
}
