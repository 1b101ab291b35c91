//! Resource usage, for quotas.

use agentiso_core::SessionId;
use rusqlite::Row;

use crate::stored::Stored;
use crate::{MetaError, Read, Usage};

impl Read<'_> {
    /// Returns the usage of a session's workspaces, or of all workspaces. In a [`Tx`](crate::Tx) the result stays valid
    /// until the transaction ends: no other caller can add a workspace meanwhile.
    pub fn usage(&self, owner: Option<SessionId>) -> Result<Usage, MetaError> {
        const SUMS: &str = "SELECT count(*), coalesce(sum(memory_mb), 0),
            coalesce(sum(memory_mb) FILTER (WHERE state = 'running'), 0), coalesce(sum(disk_gb), 0),
            coalesce(sum((SELECT count(*) FROM snapshots WHERE snapshots.workspace = workspaces.id)), 0)
            FROM workspaces";
        let usage = match owner {
            Some(owner) => self.one(
                &format!("{SUMS} JOIN settings ON settings.workspace = workspaces.id WHERE owner = ?1"),
                [Stored(owner)],
                read,
            ),
            None => self.one(SUMS, [], read),
        };
        Ok(usage?.unwrap_or_default())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Usage> {
    let number = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.unsigned_abs());
    Ok(Usage {
        workspaces: number(0)?,
        memory_mb: number(1)?,
        running_memory_mb: number(2)?,
        disk_gb: number(3)?,
        snapshots: number(4)?,
    })
}
