//! Pages of guest memory and their content.

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Consecutive pages of guest memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// Number of the first page.
    pub first: u64,
    /// The number of pages.
    pub count: u64,
}

impl Run {
    /// The offset of the first page, in bytes.
    pub fn offset(&self) -> u64 {
        self.first * PAGE as u64
    }

    /// The length, in bytes.
    pub fn bytes(&self) -> usize {
        self.count as usize * PAGE
    }
}

/// Counts the pages of some runs.
pub(super) fn count(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.count).sum()
}

/// Pages and their content at one instant.
#[derive(Debug, Default)]
pub struct Pages {
    pub(super) runs: Vec<Run>,
    pub(super) content: Vec<u8>,
}

impl Pages {
    /// Allocates memory for pages, so that filling them later does not wait for it.
    pub(super) fn with_room(pages: u64) -> Self {
        // Not zeros, which the kernel would allocate lazily.
        Self { runs: Vec::new(), content: vec![1; pages as usize * PAGE] }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        count(&self.runs)
    }

    /// Which pages they are, in ascending order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// What is in them, one after the other.
    pub fn content(&self) -> &[u8] {
        &self.content[..self.count() as usize * PAGE]
    }

    /// Every page with its number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let numbers = self.runs.iter().flat_map(|run| run.first..run.first + run.count);
        numbers.zip(self.content.chunks_exact(PAGE))
    }
}

/// Appends consecutive pages.
pub(super) fn append(runs: &mut Vec<Run>, added: Run) {
    match runs.last_mut() {
        Some(last) if last.first + last.count == added.first => last.count += added.count,
        _ => runs.push(added),
    }
}

/// Splits runs, in order, into batches of at most `most` pages.
pub(super) fn batches(runs: &[Run], most: u64) -> impl Iterator<Item = Vec<Run>> {
    let mut rest = runs.to_vec();
    std::iter::from_fn(move || {
        let (batch, after) = split_at(&rest, most);
        rest = after;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Splits runs after the first `pages` pages.
pub(super) fn split_at(runs: &[Run], pages: u64) -> (Vec<Run>, Vec<Run>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut room = pages;
    for &run in runs {
        let taken = run.count.min(room);
        room -= taken;
        if taken > 0 {
            before.push(Run { first: run.first, count: taken });
        }
        if taken < run.count {
            after.push(Run { first: run.first + taken, count: run.count - taken });
        }
    }
    (before, after)
}

/// Splits runs, in order, into at most `parts` pieces of about the same number of pages.
pub(super) fn split(runs: &[Run], parts: usize) -> Vec<Vec<Run>> {
    let share = count(runs).div_ceil(parts as u64).max(1);
    let mut pieces = vec![Vec::new()];
    let mut room = share;
    for &run in runs {
        let mut run = run;
        while run.count > 0 {
            if room == 0 {
                pieces.push(Vec::new());
                room = share;
            }
            let taken = run.count.min(room);
            if let Some(piece) = pieces.last_mut() {
                piece.push(Run { first: run.first, count: taken });
            }
            run = Run { first: run.first + taken, count: run.count - taken };
            room -= taken;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn splitting_loses_nothing_and_is_fair(lengths in prop::collection::vec(1u64..50, 0..40), parts in 1usize..5) {
            let mut first = 0;
            let runs: Vec<Run> = lengths.iter().map(|&count| { first += count + 1; Run { first: first - count, count } }).collect();
            let pieces = split(&runs, parts);
            let numbers = |runs: &[Run]| runs.iter().flat_map(|run| run.first..run.first + run.count).collect::<Vec<_>>();
            let all: Vec<u64> = pieces.iter().flat_map(|piece| numbers(piece)).collect();
            prop_assert_eq!(all, numbers(&runs));
            prop_assert!(pieces.len() <= parts);
            let batched: Vec<Vec<Run>> = batches(&runs, 7).collect();
            prop_assert!(batched.iter().all(|batch| (1..=7).contains(&count(batch))));
            prop_assert_eq!(batched.iter().flat_map(|batch| numbers(batch)).collect::<Vec<_>>(), numbers(&runs));
        }
    }
}
