//! Statistics.

use std::fs;
use std::path::PathBuf;

use agentiso_store::Stats;

use crate::model::Totals;
use crate::{Vaults, VfsError};

/// How much there is, in one vault or in all.
#[derive(Clone, Debug, PartialEq)]
pub struct VaultStats {
    /// Number of vaults.
    pub vaults: u64,
    /// What their working trees have, each counted by itself.
    pub totals: Totals,
    /// Changes that are recorded.
    pub revisions: u64,
    /// Versions of files that are recorded one by one.
    pub versions: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Runs in progress.
    pub uses: u64,
    /// The store, which all vaults share.
    pub store: Stats,
    /// Size of the records, which all vaults share, with their log.
    pub record_bytes: u64,
    /// Size of the search index.
    pub search_bytes: u64,
}

impl VaultStats {
    /// Everything on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.store.pack_bytes + self.record_bytes + self.search_bytes
    }
}

impl Vaults {
    /// Counts what one vault has, or all have.
    pub fn stats(&self, vault: Option<&str>) -> Result<VaultStats, VfsError> {
        let store = self.store.stats()?;
        let record_bytes = self.record_bytes();
        let search_bytes = self.index.size();
        self.records.read(|read| {
            let key = vault.map(|vault| read.vault(vault)).transpose()?.map(|row| row.key);
            let count = |table: &str| {
                let sql = format!("SELECT count(*) FROM {table} WHERE (?1 IS NULL OR vault = ?1)");
                read.count(&sql, [key])
            };
            let sql = "SELECT count(*), coalesce(sum(files), 0), coalesce(sum(directories), 0),
                              coalesce(sum(bytes), 0)
                       FROM vaults WHERE name IS NOT NULL AND (?1 IS NULL OR id = ?1)";
            let found = read.one(sql, [key], |row| {
                let totals = Totals { files: row.get(1)?, directories: row.get(2)?, bytes: row.get(3)? };
                Ok((row.get::<_, u64>(0)?, totals))
            })?;
            let (vaults, totals) = found.unwrap_or_default();
            Ok(VaultStats {
                vaults,
                totals,
                revisions: count("revisions")?,
                versions: read.count(
                    "SELECT count(*) FROM touched WHERE kind IN (1, 3) AND (?1 IS NULL OR vault = ?1)",
                    [key],
                )?,
                checkpoints: count("checkpoints")?,
                uses: count("uses")?,
                store,
                record_bytes,
                search_bytes,
            })
        })
    }

    /// Size of the records with their log.
    pub(super) fn record_bytes(&self) -> u64 {
        let with = |suffix: &str| {
            let mut name = self.records.path().as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let files = [with(""), with("-wal"), with("-shm")];
        files.iter().filter_map(|path| fs::metadata(path).ok()).map(|metadata| metadata.len()).sum()
    }
}
