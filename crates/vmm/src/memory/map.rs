//! Where the content of a memory image's pages is kept.
//!
//! The map is flat: whatever the number of snapshots before, each page is found in one step.

use std::io;

use agentiso_core::MemoryId;
use uuid::Uuid;

use super::Run;

const MAGIC: [u8; 8] = *b"AISOMAP\x01";
const HEADER: usize = 8 + 8 + 4 + 4;
const ENTRY: usize = 8 + 8 + 8 + 4;
const DIGEST: usize = 32;
/// Stands for "zeros" where the number of a pack would be.
const ZEROS: u32 = u32::MAX;
/// No guest is larger than this, in pages.
const MAX_PAGES: u64 = 1 << 30;

/// Where a run's content is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// Nowhere: it is zeros.
    Zeros,
    /// In a pack, one of [`PageMap::packs`].
    Pack {
        /// Which.
        pack: usize,
        /// At which page of it.
        at: u64,
    },
}

/// A run and where its content is.
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
    /// The packs referred to, each named after the image it was written with.
    pub packs: Vec<MemoryId>,
    /// In ascending order, without overlap.
    pub entries: Vec<Entry>,
}

/// Why a map cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MapError {
    /// It is not a map of this version.
    #[error("it is not a memory map of this version")]
    Foreign,
    /// Its digest does not fit.
    #[error("its content changed")]
    Changed,
    /// Its entries make no sense.
    #[error("its entries make no sense")]
    Nonsense,
}

impl From<MapError> for io::Error {
    fn from(error: MapError) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl PageMap {
    /// Adds a page behind all others, joining it to the last entry where it continues that.
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

    /// Where a page's content is, if it differs from the base.
    pub fn find(&self, page: u64) -> Option<Place> {
        let after = self.entries.partition_point(|entry| entry.run.first <= page);
        let entry = self.entries[..after].last()?;
        let inside = page - entry.run.first;
        (inside < entry.run.count).then_some(match entry.place {
            Place::Zeros => Place::Zeros,
            Place::Pack { pack, at } => Place::Pack { pack, at: at + inside },
        })
    }

    /// The pages of one pack it refers to, as runs of that pack.
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

    /// Its form in a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(HEADER + 16 * self.packs.len() + ENTRY * self.entries.len() + DIGEST);
        bytes.extend(MAGIC);
        bytes.extend(self.guest_pages.to_le_bytes());
        bytes.extend((self.packs.len() as u32).to_le_bytes());
        bytes.extend((self.entries.len() as u32).to_le_bytes());
        for pack in &self.packs {
            bytes.extend(pack.as_uuid().as_bytes());
        }
        for entry in &self.entries {
            let (pack, at) = match entry.place {
                Place::Zeros => (ZEROS, 0),
                Place::Pack { pack, at } => (pack as u32, at),
            };
            bytes.extend(entry.run.first.to_le_bytes());
            bytes.extend(entry.run.count.to_le_bytes());
            bytes.extend(at.to_le_bytes());
            bytes.extend(pack.to_le_bytes());
        }
        let digest = blake3::hash(&bytes);
        bytes.extend(digest.as_bytes());
        bytes
    }

    /// Reads it back; whatever is wrong with it is found here.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MapError> {
        if bytes.len() < HEADER + DIGEST || bytes[..8] != MAGIC {
            return Err(MapError::Foreign);
        }
        let (content, digest) = bytes.split_at(bytes.len() - DIGEST);
        if blake3::hash(content).as_bytes() != digest {
            return Err(MapError::Changed);
        }
        let mut reader = Reader(&content[8..]);
        let guest_pages = reader.u64()?;
        let (packs, entries) = (reader.u32()? as usize, reader.u32()? as usize);
        if reader.0.len() as u64 != 16 * packs as u64 + (ENTRY as u64) * entries as u64
            || guest_pages > MAX_PAGES
        {
            return Err(MapError::Nonsense);
        }
        let packs = (0..packs).map(|_| reader.id()).collect::<Result<Vec<_>, _>>()?;
        let entries = (0..entries).map(|_| reader.entry()).collect::<Result<Vec<_>, _>>()?;
        let map = Self { guest_pages, packs, entries };
        map.check()?;
        Ok(map)
    }

    fn check(&self) -> Result<(), MapError> {
        let mut free_from = 0;
        for Entry { run, place } in &self.entries {
            let end = run.first.checked_add(run.count).ok_or(MapError::Nonsense)?;
            let known = match *place {
                Place::Zeros => true,
                Place::Pack { pack, at } => pack < self.packs.len() && at <= MAX_PAGES * 1024,
            };
            if run.count == 0 || run.first < free_from || end > self.guest_pages || !known {
                return Err(MapError::Nonsense);
            }
            free_from = end;
        }
        Ok(())
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], MapError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(MapError::Nonsense)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u64(&mut self) -> Result<u64, MapError> {
        self.take().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, MapError> {
        self.take().map(u32::from_le_bytes)
    }

    fn id(&mut self) -> Result<MemoryId, MapError> {
        self.take().map(|bytes| MemoryId::from_uuid(Uuid::from_bytes(bytes)))
    }

    fn entry(&mut self) -> Result<Entry, MapError> {
        let run = Run { first: self.u64()?, count: self.u64()? };
        let at = self.u64()?;
        let place = match self.u32()? {
            ZEROS => Place::Zeros,
            pack => Place::Pack { pack: pack as usize, at },
        };
        Ok(Entry { run, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn id(number: u128) -> MemoryId {
        MemoryId::from_uuid(Uuid::from_u128(number))
    }

    fn map_of(pages: &BTreeMap<u64, Place>) -> PageMap {
        let mut map = PageMap { guest_pages: 1000, packs: vec![id(1), id(2)], entries: Vec::new() };
        for (&page, &place) in pages {
            map.push(page, place);
        }
        map
    }

    fn place() -> impl Strategy<Value = Place> {
        prop_oneof![Just(Place::Zeros), (0usize..2, 0u64..50).prop_map(|(pack, at)| Place::Pack { pack, at })]
    }

    proptest! {
        #[test]
        fn every_page_is_found_where_it_was_put(pages in prop::collection::btree_map(0u64..1000, place(), 0..200)) {
            let map = map_of(&pages);
            for page in 0..1000 {
                prop_assert_eq!(map.find(page), pages.get(&page).copied());
            }
            prop_assert_eq!(PageMap::from_bytes(&map.to_bytes()), Ok(map));
        }

        #[test]
        fn a_changed_byte_is_noticed(pages in prop::collection::btree_map(0u64..1000, place(), 0..20), at in any::<prop::sample::Index>(), flip in 1u8..) {
            let mut bytes = map_of(&pages).to_bytes();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(PageMap::from_bytes(&bytes).is_err());
        }

        #[test]
        fn any_bytes_with_a_right_digest_are_read_or_refused(content in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend(content);
            let digest = blake3::hash(&bytes);
            bytes.extend(digest.as_bytes());
            let _ = PageMap::from_bytes(&bytes);
        }
    }

    #[test]
    fn the_format_is_frozen() {
        let pages = BTreeMap::from([(1, Place::Zeros), (7, Place::Pack { pack: 1, at: 3 })]);
        let bytes = map_of(&pages).to_bytes();
        let hex: String = bytes[..bytes.len() - DIGEST].iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = concat!(
            "4149534f4d415001e8030000000000000200000002000000",
            "0000000000000000000000000000000100000000000000000000000000000002",
            "010000000000000001000000000000000000000000000000ffffffff",
            "07000000000000000100000000000000030000000000000001000000",
        );
        assert_eq!(hex, expected);
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
}
