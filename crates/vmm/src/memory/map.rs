//! The locations of a memory image's pages.
//!
//! The map is flat: each page is found in one step, however many parents the image has.

use agentiso_core::MemoryId;

use super::Run;
use super::checks::Checks;

/// The location of a run's content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// All zeros, which are not stored.
    Zeros,
    /// In a pack.
    Pack {
        /// Index into [`PageMap::packs`].
        pack: usize,
        /// The number of the first page in the pack.
        at: u64,
    },
}

/// A run and the location of its content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The pages of the guest.
    pub run: Run,
    /// Their content.
    pub place: Place,
}

/// All pages that differ from the base.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PageMap {
    /// Pages of the whole guest.
    pub guest_pages: u64,
    /// The packs, each named after the image it was written with.
    pub packs: Vec<MemoryId>,
    /// In ascending order, without overlap.
    pub entries: Vec<Entry>,
    /// The checksums; `None` in images of version 1.
    pub checks: Option<Checks>,
}

impl PageMap {
    /// Appends a page, extending the last entry if it is adjacent.
    pub fn push(&mut self, page: u64, place: Place) {
        if let Some(last) = self.entries.last_mut()
            && last.run.first + last.run.count == page
        {
            let continues = match (last.place, place) {
                (Place::Zeros, Place::Zeros) => true,
                (Place::Pack { pack, at }, Place::Pack { pack: next, at: next_at }) => {
                    pack == next && at + last.run.count == next_at
                }
                _ => false,
            };
            if continues {
                last.run.count += 1;
                return;
            }
        }
        self.entries.push(Entry { run: Run { first: page, count: 1 }, place });
    }

    /// The location of a page, if it differs from the base.
    pub fn find(&self, page: u64) -> Option<Place> {
        let after = self.entries.partition_point(|entry| entry.run.first <= page);
        let entry = self.entries[..after].last()?;
        let inside = page - entry.run.first;
        (inside < entry.run.count).then_some(match entry.place {
            Place::Zeros => Place::Zeros,
            Place::Pack { pack, at } => Place::Pack { pack, at: at + inside },
        })
    }

    /// The pages of one pack that the map refers to.
    pub fn pages_of(&self, pack: MemoryId) -> Vec<Run> {
        let wanted = self.packs.iter().position(|&known| known == pack);
        let mut runs: Vec<Run> = self
            .entries
            .iter()
            .filter_map(|entry| match entry.place {
                Place::Pack { pack, at } if Some(pack) == wanted => {
                    Some(Run { first: at, count: entry.run.count })
                }
                _ => None,
            })
            .collect();
        runs.sort_by_key(|run| run.first);
        runs
    }

    /// Every entry with the checksums of its pages. Pages of zeros and images without checksums have none.
    pub fn checked_entries(&self) -> impl Iterator<Item = (Entry, &[u32])> {
        let mut rest = self.checks.as_ref().map_or(&[][..], |checks| &checks.pages);
        self.entries.iter().map(move |&entry| {
            let kept = if entry.place == Place::Zeros { 0 } else { entry.run.count as usize };
            let (sums, after) = rest.split_at(kept.min(rest.len()));
            rest = after;
            (entry, sums)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use uuid::Uuid;

    fn id(number: u128) -> MemoryId {
        MemoryId::from_uuid(Uuid::from_u128(number))
    }

    fn map_of(pages: &BTreeMap<u64, Place>) -> PageMap {
        let mut map = PageMap { guest_pages: 1000, packs: vec![id(1), id(2)], ..PageMap::default() };
        for (&page, &place) in pages {
            map.push(page, place);
        }
        map
    }

    #[test]
    fn the_pages_of_a_pack_are_listed_in_its_order() {
        let pages = BTreeMap::from([
            (1, Place::Pack { pack: 1, at: 9 }),
            (2, Place::Pack { pack: 0, at: 0 }),
            (5, Place::Pack { pack: 1, at: 3 }),
            (6, Place::Pack { pack: 1, at: 4 }),
        ]);
        let runs = map_of(&pages).pages_of(id(2));
        assert_eq!(runs, [Run { first: 3, count: 2 }, Run { first: 9, count: 1 }]);
        assert!(map_of(&pages).pages_of(id(3)).is_empty());
    }

    #[test]
    fn each_entry_gets_the_checksums_of_its_own_pages() {
        let pages = BTreeMap::from([
            (1, Place::Pack { pack: 1, at: 9 }),
            (2, Place::Pack { pack: 1, at: 10 }),
            (3, Place::Zeros),
            (7, Place::Pack { pack: 0, at: 3 }),
        ]);
        let mut map = map_of(&pages);
        assert!(map.checked_entries().all(|(_, sums)| sums.is_empty()));
        map.checks = Some(Checks { pages: vec![11, 12, 13], ..Checks::default() });
        let sums: Vec<&[u32]> = map.checked_entries().map(|(_, sums)| sums).collect();
        assert_eq!(sums, [&[11, 12][..], &[], &[13]]);
    }
}
