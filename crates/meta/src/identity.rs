//! The identity and generation of the database, and which workspace records on disk are out of date.
//!
//! Triggers count every change to a workspace or snapshot (the *generation*) and add the workspace to `stale_records`
//! in the same transaction, so no change is missed: its record is written afterwards, and the entry stays until then.

use agentiso_core::WorkspaceId;

use crate::stored::{Stored, get};
use crate::{MetaError, Read, Tx};

/// Identifies a database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// Random, created with the database and kept by copies of it.
    pub database: String,
    /// Increases with every change to a workspace or snapshot.
    pub generation: u64,
}

/// A workspace whose record must be written or removed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StaleRecord {
    /// The workspace of the record.
    pub workspace: WorkspaceId,
    /// The generation of its latest change.
    pub generation: u64,
}

impl Read<'_> {
    /// Returns the identity of this database.
    pub fn identity(&self) -> Result<Identity, MetaError> {
        let sql = "SELECT database, generation FROM identity";
        let identity = self.one(sql, [], |row| {
            let generation: i64 = row.get("generation")?;
            Ok(Identity { database: row.get("database")?, generation: generation.unsigned_abs() })
        })?;
        identity.ok_or_else(|| MetaError::missing("identity", "of the database"))
    }

    /// Returns the workspaces whose records are out of date.
    pub fn stale_records(&self) -> Result<Vec<StaleRecord>, MetaError> {
        self.all("SELECT * FROM stale_records ORDER BY workspace", [], |row| {
            let generation: i64 = row.get("generation")?;
            Ok(StaleRecord { workspace: get(row, "workspace")?, generation: generation.unsigned_abs() })
        })
    }
}

impl Tx<'_> {
    /// Marks records as written, unless their workspaces have changed since.
    pub fn settle_records(&self, written: &[StaleRecord]) -> Result<(), MetaError> {
        for StaleRecord { workspace, generation } in written {
            let generation = i64::try_from(*generation).unwrap_or(i64::MAX);
            let sql = "DELETE FROM stale_records WHERE workspace = ?1 AND generation = ?2";
            self.execute(sql, (Stored(*workspace), generation))?;
        }
        Ok(())
    }

    /// Raises the generation to that of records written by a later state of this database.
    pub fn raise_generation(&self, to: u64) -> Result<(), MetaError> {
        let to = i64::try_from(to).unwrap_or(i64::MAX);
        self.execute("UPDATE identity SET generation = max(generation, ?1)", [to])?;
        Ok(())
    }
}
