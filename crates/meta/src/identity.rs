//! Which database this is, how far it has come, and which records beside the disks are behind it.
//!
//! Triggers count every change to a workspace or a snapshot (the *generation*) and note the workspace in
//! `stale_records` in the same transaction, so no change can be forgotten: its record is written afterwards, and until
//! then the note stays.

use agentiso_core::WorkspaceId;

use crate::stored::{Stored, get};
use crate::{MetaError, Read, Tx};

/// What a database is recognised by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// Random, made with the database and kept by its copies.
    pub database: String,
    /// Grows with every change to a workspace or a snapshot.
    pub generation: u64,
}

/// A workspace whose record has to be written or removed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StaleRecord {
    /// Whose record.
    pub workspace: WorkspaceId,
    /// The generation that changed it last.
    pub generation: u64,
}

impl Read<'_> {
    /// Returns what this database is recognised by.
    pub fn identity(&self) -> Result<Identity, MetaError> {
        let sql = "SELECT database, generation FROM identity";
        let identity = self.one(sql, [], |row| {
            let generation: i64 = row.get("generation")?;
            Ok(Identity { database: row.get("database")?, generation: generation.unsigned_abs() })
        })?;
        identity.ok_or_else(|| MetaError::missing("identity", "of the database"))
    }

    /// Returns the workspaces whose records are behind the database.
    pub fn stale_records(&self) -> Result<Vec<StaleRecord>, MetaError> {
        self.all("SELECT * FROM stale_records ORDER BY workspace", [], |row| {
            let generation: i64 = row.get("generation")?;
            Ok(StaleRecord { workspace: get(row, "workspace")?, generation: generation.unsigned_abs() })
        })
    }
}

impl Tx<'_> {
    /// Notes that records were written, unless their workspaces have changed again since.
    pub fn settle_records(&self, written: &[StaleRecord]) -> Result<(), MetaError> {
        for StaleRecord { workspace, generation } in written {
            let generation = i64::try_from(*generation).unwrap_or(i64::MAX);
            let sql = "DELETE FROM stale_records WHERE workspace = ?1 AND generation = ?2";
            self.execute(sql, (Stored(*workspace), generation))?;
        }
        Ok(())
    }

    /// Brings the generation up to that of records written by a later state of this database.
    pub fn raise_generation(&self, to: u64) -> Result<(), MetaError> {
        let to = i64::try_from(to).unwrap_or(i64::MAX);
        self.execute("UPDATE identity SET generation = max(generation, ?1)", [to])?;
        Ok(())
    }
}
