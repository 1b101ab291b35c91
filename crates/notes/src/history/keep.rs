//! How long versions are kept.

use agentiso_store::{GcOptions, Root, collect, tidy};
use rusqlite::params;

use super::records::now_ms;
use super::schema::History;
use crate::disk::WriteLock;
use crate::error::NotesError;

/// Which versions are kept: those that meet either rule, and always the last one of each note.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retention {
    /// The last versions of each path.
    pub versions: u32,
    /// Versions of the last days.
    pub days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self { versions: 100, days: 90 }
    }
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Kept {
    /// Versions that were forgotten.
    pub removed_versions: u64,
    /// Bytes that were freed in the store.
    pub freed_bytes: u64,
}

impl History {
    /// Joins what many small changes have left in the store. Costs next to nothing if there is nothing to do.
    pub(crate) fn tidy(&self) -> Result<(), NotesError> {
        tidy(&self.store)?;
        Ok(())
    }

    /// Forgets old versions and frees what only they had.
    pub(crate) fn expire(&self, retention: Retention, lock: WriteLock) -> Result<Kept, NotesError> {
        let since = now_ms() - i64::from(retention.days) * 24 * 3600 * 1000;
        let keep = i64::from(retention.versions.max(1));
        let removed = self.database.with(|connection| {
            connection.execute(
                "DELETE FROM version WHERE at_ms < ?1 AND id NOT IN (
                     SELECT id FROM (
                         SELECT id, row_number() OVER (PARTITION BY path ORDER BY id DESC) AS place FROM version
                     ) WHERE place <= ?2
                 )",
                params![since, keep],
            )
        })?;
        // Others may write while the store is searched: what they add is protected by their leases.
        drop(lock);
        let report = collect(&self.store, GcOptions::default(), || self.roots())?;
        Ok(Kept { removed_versions: removed as u64, freed_bytes: report.freed_bytes })
    }

    fn roots(&self) -> Result<Vec<Root>, NotesError> {
        let mut roots = self.contents()?;
        if let Some(plan) = self.unfinished()? {
            roots.extend(plan.contents());
        }
        Ok(roots)
    }
}
