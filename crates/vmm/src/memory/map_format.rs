//! The file format of a memory image's map.
//!
//! ```text
//! magic and version (8)  guest pages (8)  number of packs (4)  number of entries (4)
//! version 2: digest of the device state (32)
//! each pack: its id (16)
//! each entry: first page (8)  pages (8)  page in the pack (8)  pack (4)
//! version 2: the checksum of each page in a pack (4), in the order of the entries
//! digest of everything above (32)
//! ```
//!
//! All numbers are little-endian. Version 1 has no checksums, and can still be read.

use std::io;

use agentiso_core::MemoryId;
use uuid::Uuid;

use super::Run;
use super::checks::{Checks, DIGEST};
use super::map::{Entry, PageMap, Place};

const MAGIC: [u8; 7] = *b"AISOMAP";
const WITHOUT_CHECKS: u8 = 1;
const WITH_CHECKS: u8 = 2;
const HEADER: usize = 8 + 8 + 4 + 4;
const ENTRY: usize = 8 + 8 + 8 + 4;
const SUM: usize = 4;
/// The pack number of pages that are all zeros.
const ZEROS: u32 = u32::MAX;
/// No guest is larger than this, in pages.
const MAX_PAGES: u64 = 1 << 30;

/// Whether a map with this prefix has no checksums.
pub(super) fn is_unverifiable(start: [u8; 8]) -> bool {
    start[..7] == MAGIC && start[7] == WITHOUT_CHECKS
}

/// Why a map cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MapError {
    /// Not a map, or of an unknown version.
    #[error("its map has a format this version of agentiso does not know")]
    Foreign,
    /// Its digest does not match.
    #[error("its map does not match its checksum")]
    Changed,
    /// Its entries contradict each other.
    #[error("its map is inconsistent")]
    Nonsense,
}

impl From<MapError> for io::Error {
    fn from(error: MapError) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl PageMap {
    /// Encodes it: as version 2, or as version 1 if it has no checksums.
    pub fn to_bytes(&self) -> Vec<u8> {
        let sums = self.checks.as_ref().map_or(0, |checks| DIGEST + SUM * checks.pages.len());
        let size = HEADER + 16 * self.packs.len() + ENTRY * self.entries.len() + sums + DIGEST;
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(MAGIC);
        bytes.push(if self.checks.is_some() { WITH_CHECKS } else { WITHOUT_CHECKS });
        bytes.extend(self.guest_pages.to_le_bytes());
        bytes.extend((self.packs.len() as u32).to_le_bytes());
        bytes.extend((self.entries.len() as u32).to_le_bytes());
        if let Some(checks) = &self.checks {
            bytes.extend(checks.device);
        }
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
        if let Some(checks) = &self.checks {
            bytes.extend(checks.pages.iter().flat_map(|sum| sum.to_le_bytes()));
        }
        let digest = blake3::hash(&bytes);
        bytes.extend(digest.as_bytes());
        bytes
    }

    /// Decodes and checks it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MapError> {
        if bytes.len() < HEADER + DIGEST || bytes[..7] != MAGIC {
            return Err(MapError::Foreign);
        }
        let checked = match bytes[7] {
            WITHOUT_CHECKS => false,
            WITH_CHECKS => true,
            _ => return Err(MapError::Foreign),
        };
        let (content, digest) = bytes.split_at(bytes.len() - DIGEST);
        if blake3::hash(content).as_bytes() != digest {
            return Err(MapError::Changed);
        }
        let mut reader = Reader(&content[8..]);
        let guest_pages = reader.u64()?;
        let (packs, entries) = (reader.u32()? as usize, reader.u32()? as usize);
        let device = if checked { Some(reader.take::<DIGEST>()?) } else { None };
        let least = 16 * packs as u64 + (ENTRY as u64) * entries as u64;
        if (reader.0.len() as u64) < least || guest_pages > MAX_PAGES {
            return Err(MapError::Nonsense);
        }
        let packs = (0..packs).map(|_| reader.id()).collect::<Result<Vec<_>, _>>()?;
        let entries = (0..entries).map(|_| reader.entry()).collect::<Result<Vec<_>, _>>()?;
        let mut map = Self { guest_pages, packs, entries, checks: None };
        map.check()?;
        let kept: u64 = map.kept_pages();
        if reader.0.len() as u64 != device.map_or(0, |_| SUM as u64 * kept) {
            return Err(MapError::Nonsense);
        }
        if let Some(device) = device {
            let pages = (0..kept).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
            map.checks = Some(Checks { device, pages });
        }
        Ok(map)
    }

    /// How many pages are in packs.
    fn kept_pages(&self) -> u64 {
        let kept = self.entries.iter().filter(|entry| entry.place != Place::Zeros);
        kept.map(|entry| entry.run.count).sum()
    }

    /// Whether its entries are consistent and within the guest's memory.
    pub(super) fn check(&self) -> Result<(), MapError> {
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

    fn map_of(pages: &BTreeMap<u64, Place>, checked: bool) -> PageMap {
        let mut map = PageMap { guest_pages: 1000, packs: vec![id(1), id(2)], ..PageMap::default() };
        for (&page, &place) in pages {
            map.push(page, place);
        }
        if checked {
            let pages = (0..map.kept_pages()).map(|page| page as u32 + 0x0a0b_0c00).collect();
            map.checks = Some(Checks { device: [0xd; DIGEST], pages });
        }
        map
    }

    fn place() -> impl Strategy<Value = Place> {
        prop_oneof![Just(Place::Zeros), (0usize..2, 0u64..50).prop_map(|(pack, at)| Place::Pack { pack, at })]
    }

    proptest! {
        #[test]
        fn every_page_is_found_where_it_was_put(pages in prop::collection::btree_map(0u64..1000, place(), 0..200), checked: bool) {
            let map = map_of(&pages, checked);
            for page in 0..1000 {
                prop_assert_eq!(map.find(page), pages.get(&page).copied());
            }
            prop_assert_eq!(PageMap::from_bytes(&map.to_bytes()), Ok(map));
        }

        #[test]
        fn a_changed_byte_is_noticed(pages in prop::collection::btree_map(0u64..1000, place(), 0..20), checked: bool, at in any::<prop::sample::Index>(), flip in 1u8..) {
            let mut bytes = map_of(&pages, checked).to_bytes();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(PageMap::from_bytes(&bytes).is_err());
        }

        #[test]
        fn any_bytes_with_a_right_digest_are_read_or_refused(version in 1u8..3, content in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = MAGIC.to_vec();
            bytes.push(version);
            bytes.extend(content);
            let digest = blake3::hash(&bytes);
            bytes.extend(digest.as_bytes());
            let _ = PageMap::from_bytes(&bytes);
        }
    }

    /// The content of a file, without the digest at its end.
    fn hex(map: &PageMap) -> String {
        let bytes = map.to_bytes();
        bytes[..bytes.len() - DIGEST].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn file(hex: &str) -> Vec<u8> {
        let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let mut bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
        let digest = blake3::hash(&bytes);
        bytes.extend(digest.as_bytes());
        bytes
    }

    #[test]
    fn both_versions_of_the_format_are_frozen() {
        let pages = BTreeMap::from([(1, Place::Zeros), (7, Place::Pack { pack: 1, at: 3 })]);
        let packs_and_entries = concat!(
            "0000000000000000000000000000000100000000000000000000000000000002",
            "010000000000000001000000000000000000000000000000ffffffff",
            "07000000000000000100000000000000030000000000000001000000",
        );
        let first = format!("4149534f4d415001e8030000000000000200000002000000{packs_and_entries}");
        let second = format!(
            "4149534f4d415002e8030000000000000200000002000000{}{packs_and_entries}000c0b0a",
            "0d".repeat(DIGEST)
        );
        for (checked, expected) in [(false, first), (true, second)] {
            let map = map_of(&pages, checked);
            assert_eq!(hex(&map), expected);
            assert_eq!(PageMap::from_bytes(&file(&expected)), Ok(map));
        }
    }

    #[test]
    fn a_later_version_is_refused_as_such() {
        let mut bytes = map_of(&BTreeMap::new(), true).to_bytes();
        bytes[7] = 3;
        assert_eq!(PageMap::from_bytes(&bytes), Err(MapError::Foreign));
    }
}
