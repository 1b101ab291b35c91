//! Unfinished operations, so that another process can complete or undo them if their owner dies.

use std::fmt;

use agentiso_core::WorkspaceId;
use jiff::Timestamp;
use rusqlite::Row;
use serde_json::Value;

use crate::stored::{Stored, get, get_if_any};
use crate::{MetaError, Owner, Read, Tx};

/// Identifies an operation. Never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OperationId(i64);

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An unfinished operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Increases with every operation.
    pub id: OperationId,
    /// The type of operation.
    pub kind: String,
    /// The workspace. It may not exist yet, or no longer.
    pub workspace: Option<WorkspaceId>,
    /// Start time, to the microsecond.
    pub begun: Timestamp,
    /// The process that runs it.
    pub owner: Owner,
    /// What is needed to complete or undo it; the format belongs to the runtime.
    pub intent: Value,
}

impl Read<'_> {
    /// Returns all unfinished operations, oldest first.
    pub fn operations(&self) -> Result<Vec<Operation>, MetaError> {
        self.all("SELECT * FROM operations ORDER BY id", [], read)
    }

    /// Returns the unfinished operations on a workspace, oldest first.
    pub fn operations_on(&self, workspace: WorkspaceId) -> Result<Vec<Operation>, MetaError> {
        self.all("SELECT * FROM operations WHERE workspace = ?1 ORDER BY id", [Stored(workspace)], read)
    }
}

impl Tx<'_> {
    /// Records that this process begins an operation.
    pub fn begin(
        &self,
        kind: &str,
        workspace: Option<WorkspaceId>,
        intent: &Value,
    ) -> Result<OperationId, MetaError> {
        let started = i64::try_from(self.owner.started).unwrap_or(i64::MAX);
        self.execute(
            "INSERT INTO operations (kind, workspace, begun, owner_pid, owner_started, intent)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (kind, workspace.map(Stored), Stored(Timestamp::now()), self.owner.pid, started, Stored(intent)),
        )?;
        Ok(OperationId(self.connection.last_insert_rowid()))
    }

    /// Replaces the data needed to complete or undo an operation.
    pub fn set_intent(&self, id: OperationId, intent: &Value) -> Result<(), MetaError> {
        let sql = "UPDATE operations SET intent = ?2 WHERE id = ?1";
        self.change_one("operation", id, sql, (id.0, Stored(intent)))
    }

    /// Removes a completed or undone operation. Fails if another process has already done so.
    pub fn complete(&self, id: OperationId) -> Result<(), MetaError> {
        self.change_one("operation", id, "DELETE FROM operations WHERE id = ?1", [id.0])
    }

    /// Gives up ownership of an operation, so that another process can clean it up.
    pub fn abandon(&self, id: OperationId) -> Result<(), MetaError> {
        let sql = "UPDATE operations SET owner_pid = 0, owner_started = 0 WHERE id = ?1";
        self.change_one("operation", id, sql, [id.0])
    }

    /// Makes this process the owner of an operation whose owner has died, so that only one process cleans up.
    ///
    /// Returns false if it has ended or another process adopted it first.
    pub fn adopt(&self, operation: &Operation) -> Result<bool, MetaError> {
        let signed = |started: u64| i64::try_from(started).unwrap_or(i64::MAX);
        let adopted = self.execute(
            "UPDATE operations SET owner_pid = ?2, owner_started = ?3
             WHERE id = ?1 AND owner_pid = ?4 AND owner_started = ?5",
            (
                operation.id.0,
                self.owner.pid,
                signed(self.owner.started),
                operation.owner.pid,
                signed(operation.owner.started),
            ),
        )?;
        Ok(adopted == 1)
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Operation> {
    let started: i64 = row.get("owner_started")?;
    Ok(Operation {
        id: OperationId(row.get("id")?),
        kind: row.get("kind")?,
        workspace: get_if_any(row, "workspace")?,
        begun: get(row, "begun")?,
        owner: Owner { pid: row.get("owner_pid")?, started: started.unsigned_abs() },
        intent: get(row, "intent")?,
    })
}
