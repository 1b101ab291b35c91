//! Everything that should be done from time to time.

use agentiso_store::{Root, tidy};

use super::gc::{GcDone, GcRequest};
use super::stats::VaultStats;
use crate::history::{PruneKeep, PruneRequest};
use crate::{Vaults, VfsError};

/// What is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaintainRequest {
    /// History that every vault keeps, in addition to what its retention says.
    pub keep: Option<PruneKeep>,
    /// Do not collect garbage.
    pub skip_gc: bool,
    /// Do not make the records smaller.
    pub skip_compact: bool,
}

/// Sizes of the records and the search index.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Compacted {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// What was done.
#[derive(Clone, Debug)]
pub struct Maintained {
    /// Before.
    pub before: VaultStats,
    /// After.
    pub after: VaultStats,
    /// Vaults that had expired.
    pub expired: Vec<String>,
    /// Changes that are not kept any more.
    pub revisions: u64,
    /// Checkpoints that are not kept any more.
    pub checkpoints: u64,
    /// The garbage collection.
    pub gc: Option<GcDone>,
    /// What became of the records.
    pub compacted: Option<Compacted>,
}

impl Vaults {
    /// Removes vaults that have expired, applies the retention of every vault, collects garbage, joins packs, and makes the
    /// records smaller. `more` is that of [`Vaults::gc`].
    pub fn maintain(
        &self,
        request: &MaintainRequest,
        more: impl FnOnce() -> Result<Vec<Root>, VfsError>,
    ) -> Result<Maintained, VfsError> {
        let before = self.stats(None)?;
        let expired = self.sweep_expired(usize::MAX >> 1)?;
        let (mut revisions, mut checkpoints) = (0, 0);
        let rows = self.records.read(|read| read.vault_rows())?;
        for row in rows {
            let (pruned, thinned) = self.records.write(|tx| tx.apply_retention(row.key, Self::now()))?;
            revisions += pruned;
            checkpoints += thinned;
            if let Some(keep) = request.keep {
                let prune = PruneRequest { keep, path: None, dry_run: false };
                // It may have been removed since it was listed.
                match self.prune(&row.id.to_string(), &prune) {
                    Err(VfsError::VaultNotFound { .. }) => {}
                    other => revisions += other?.revisions,
                }
            }
        }
        let gc = if request.skip_gc { None } else { Some(self.gc(&GcRequest::default(), more)?) };
        tidy(&self.store)?;
        let compacted = if request.skip_compact { None } else { Some(self.compact()?) };
        let after = self.stats(None)?;
        Ok(Maintained { before, after, expired, revisions, checkpoints, gc, compacted })
    }

    /// Makes the records and the search index as small as they can be. Others wait meanwhile.
    pub fn compact(&self) -> Result<Compacted, VfsError> {
        let before = self.record_bytes() + self.index.size();
        self.records.outside(|connection| {
            connection.execute_batch("VACUUM")?;
            // Readers may keep the log from being emptied; then it is done another time.
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            Ok(())
        })?;
        if self.index.size() > 0 {
            self.index.with(|index| {
                index.execute_batch("INSERT INTO words (words) VALUES ('optimize'); VACUUM")?;
                index.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
                Ok(())
            })?;
        }
        Ok(Compacted { before, after: self.record_bytes() + self.index.size() })
    }
}
