//! How much is in a store.

use std::collections::HashSet;
use std::fs;

use crate::error::StoreError;
use crate::id::ObjectKind;
use crate::store::Store;

/// Objects of one kind. An object with several copies counts once, its stored bytes once for each copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KindStats {
    /// The kind.
    pub kind: ObjectKind,
    /// Different objects.
    pub objects: u64,
    /// Their size before compression.
    pub raw_bytes: u64,
    /// What they take in packs.
    pub stored_bytes: u64,
}

/// The contents of a store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stats {
    /// Number of packs.
    pub packs: u64,
    /// Packs that cannot be opened.
    pub damaged_packs: u64,
    /// Size of all packs.
    pub pack_bytes: u64,
    /// Temporary files, of running and of ended processes.
    pub temporary_files: u64,
    /// Leases, of running and of ended processes.
    pub leases: u64,
    /// Pins.
    pub pins: u64,
    /// Objects by kind.
    pub kinds: Vec<KindStats>,
}

impl Store {
    /// Counts what is in the store; reads the indexes of all packs.
    pub fn stats(&self) -> Result<Stats, StoreError> {
        let set = self.refresh()?;
        let mut kinds: Vec<KindStats> = ObjectKind::ALL
            .into_iter()
            .map(|kind| KindStats { kind, objects: 0, raw_bytes: 0, stored_bytes: 0 })
            .collect();
        let mut seen = HashSet::new();
        for pack in &set.packs {
            for entry in pack.entries()? {
                let Some(stats) = kinds.iter_mut().find(|stats| stats.kind == entry.header.kind) else {
                    continue;
                };
                stats.stored_bytes += u64::from(entry.header.stored);
                if seen.insert(entry.header.id) {
                    stats.objects += 1;
                    stats.raw_bytes += u64::from(entry.header.raw);
                }
            }
        }
        let count = |name: &str| {
            let path = self.root().join(name);
            fs::read_dir(&path).map(|entries| entries.count() as u64).map_err(StoreError::io("read", path))
        };
        Ok(Stats {
            packs: set.packs.len() as u64,
            damaged_packs: set.damaged.len() as u64,
            pack_bytes: set.packs.iter().map(|pack| pack.len()).sum(),
            temporary_files: count("tmp")?,
            leases: count("leases")?,
            pins: count("pins")?,
            kinds,
        })
    }
}
