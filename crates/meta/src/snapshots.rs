//! Snapshots of workspaces.

use agentiso_core::action::SnapshotKind;
use agentiso_core::{SnapshotId, WorkspaceId, nearest};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Row, named_params};

use crate::stored::{Stored, get, get_if_any};
use crate::{MetaError, Read, Snapshot, Tx};

impl FromSql for Stored<SnapshotKind> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        SnapshotKind::named(value.as_str()?).map(Self).ok_or(FromSqlError::InvalidType)
    }
}

impl Read<'_> {
    /// Returns a snapshot by its id.
    pub fn snapshot(&self, id: SnapshotId) -> Result<Snapshot, MetaError> {
        self.one("SELECT * FROM snapshots WHERE id = ?1", [Stored(id)], read)?
            .ok_or_else(|| MetaError::SnapshotNotFound { asked: id.to_string(), nearest: None })
    }

    /// Returns a snapshot, or `None` if it does not exist. An error never means absence.
    pub fn snapshot_if_known(&self, id: SnapshotId) -> Result<Option<Snapshot>, MetaError> {
        self.one("SELECT * FROM snapshots WHERE id = ?1", [Stored(id)], read)
    }

    /// Returns a snapshot of a workspace by name.
    pub fn find_snapshot(&self, workspace: WorkspaceId, asked: &str) -> Result<Snapshot, MetaError> {
        let sql = "SELECT * FROM snapshots WHERE workspace = ?1 AND name = ?2";
        if let Some(found) = self.one(sql, (Stored(workspace), asked), read)? {
            return Ok(found);
        }
        let sql = "SELECT name FROM snapshots WHERE workspace = ?1 AND kind = 'user'";
        let names = self.all(sql, [Stored(workspace)], |row| row.get::<_, String>(0))?;
        let nearest = nearest(asked, names.iter().map(String::as_str)).map(str::to_owned);
        Err(MetaError::SnapshotNotFound { asked: asked.to_owned(), nearest })
    }

    /// Returns the snapshots of a workspace, oldest first.
    pub fn snapshots(&self, workspace: WorkspaceId) -> Result<Vec<Snapshot>, MetaError> {
        let sql = "SELECT * FROM snapshots WHERE workspace = ?1 ORDER BY created, id";
        self.all(sql, [Stored(workspace)], read)
    }
}

impl Tx<'_> {
    /// Adds a snapshot. Its workspace, parent, memory image and disk must exist, and the disk must be frozen.
    pub fn insert_snapshot(&self, snapshot: &Snapshot) -> Result<(), MetaError> {
        self.workspace(snapshot.workspace)?;
        self.require_frozen(snapshot.disk)?;
        let taken = "SELECT 1 FROM snapshots WHERE workspace = ?1 AND name = ?2";
        let parameters = (Stored(snapshot.workspace), snapshot.name.as_str());
        if self.one(taken, parameters, |_| Ok(()))?.is_some() {
            return Err(MetaError::SnapshotExists { name: snapshot.name.to_string() });
        }
        self.execute(
            "INSERT INTO snapshots (id, workspace, name, kind, description, parent, created, disk, memory)
             VALUES (:id, :workspace, :name, :kind, :description, :parent, :created, :disk, :memory)",
            named_params! {
                ":id": Stored(snapshot.id),
                ":workspace": Stored(snapshot.workspace),
                ":name": snapshot.name.as_str(),
                ":kind": snapshot.kind.as_str(),
                ":description": snapshot.description,
                ":parent": snapshot.parent.map(Stored),
                ":created": Stored(snapshot.created),
                ":disk": Stored(snapshot.disk),
                ":memory": snapshot.memory.map(Stored),
            },
        )?;
        Ok(())
    }

    /// Removes a snapshot. Snapshots and workspaces based on it are then based on its parent. Its disk and memory image
    /// stay until they are removed as unreferenced. Forks keep their lineage, without the snapshot.
    pub fn remove_snapshot(&self, id: SnapshotId) -> Result<(), MetaError> {
        let parent = self.snapshot(id)?.parent;
        let moved = (Stored(id), parent.map(Stored));
        self.execute("UPDATE snapshots SET parent = ?2 WHERE parent = ?1", moved)?;
        self.execute("UPDATE workspaces SET position = ?2 WHERE position = ?1", moved)?;
        self.execute("DELETE FROM snapshots WHERE id = ?1", [Stored(id)])?;
        Ok(())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Snapshot> {
    Ok(Snapshot {
        id: get(row, "id")?,
        workspace: get(row, "workspace")?,
        name: get(row, "name")?,
        kind: get(row, "kind")?,
        description: row.get("description")?,
        parent: get_if_any(row, "parent")?,
        created: get(row, "created")?,
        disk: get(row, "disk")?,
        memory: get_if_any(row, "memory")?,
    })
}
