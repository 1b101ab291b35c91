//! Rows of checkpoints.

use agentiso_store::TreeId;
use jiff::Timestamp;
use rusqlite::Row;

use crate::VfsError;
use crate::checkpoint::CheckpointKind;
use crate::db::{Read, Tx, from_micros, map_error, to_micros, tree_of};
use crate::model::Totals;
use crate::records::Segment;

const COLUMNS: &str =
    "vault, name, kind, tree, annotations, revision, files, directories, bytes, description, tags,
    actor, created_at";

#[derive(Clone, Debug)]
pub(crate) struct CheckpointRow {
    pub(crate) vault: i64,
    pub(crate) name: String,
    pub(crate) kind: CheckpointKind,
    pub(crate) tree: TreeId,
    pub(crate) annotations: Option<i64>,
    pub(crate) revision: u64,
    pub(crate) totals: Totals,
    pub(crate) description: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) actor: String,
    pub(crate) created_at: Timestamp,
}

impl CheckpointRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let tags: String = row.get(10)?;
        Ok(Self {
            vault: row.get(0)?,
            name: row.get(1)?,
            kind: CheckpointKind::from_number(row.get(2)?).ok_or_else(|| map_error(2, "it is not a kind"))?,
            tree: tree_of(row, 3)?,
            annotations: row.get(4)?,
            revision: row.get(5)?,
            totals: Totals { files: row.get(6)?, directories: row.get(7)?, bytes: row.get(8)? },
            description: row.get(9)?,
            tags: tags.split('\n').filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
            actor: row.get(11)?,
            created_at: from_micros(12, row.get(12)?)?,
        })
    }
}

impl Read<'_> {
    /// A checkpoint of a vault, or the newest of that name that its ancestors had when it was forked.
    pub(crate) fn checkpoint_row(
        &self,
        line: &[Segment],
        name: &str,
    ) -> Result<Option<CheckpointRow>, VfsError> {
        let sql = format!("SELECT {COLUMNS} FROM checkpoints WHERE vault = ?1 AND name = ?2");
        for (index, segment) in line.iter().enumerate() {
            let found = self.one(&sql, (segment.vault, name), CheckpointRow::read)?;
            if let Some(found) = found.filter(|found| index == 0 || found.revision <= segment.to) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// All checkpoints of a line, oldest first.
    pub(crate) fn checkpoint_rows(&self, line: &[Segment]) -> Result<Vec<CheckpointRow>, VfsError> {
        let mut found = Vec::new();
        for (index, segment) in line.iter().enumerate().rev() {
            let sql = format!("SELECT {COLUMNS} FROM checkpoints WHERE vault = ?1 ORDER BY id");
            let rows = self.all(&sql, [segment.vault], CheckpointRow::read)?;
            found.extend(rows.into_iter().filter(|row| index == 0 || row.revision <= segment.to));
        }
        Ok(found)
    }
}

impl Tx<'_> {
    pub(crate) fn insert_checkpoint(&self, row: &CheckpointRow) -> Result<(), VfsError> {
        let sql = format!(
            "INSERT INTO checkpoints ({COLUMNS})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
        );
        self.execute(
            &sql,
            (
                row.vault,
                &row.name,
                row.kind.number(),
                row.tree.0.as_bytes(),
                row.annotations,
                row.revision,
                row.totals.files,
                row.totals.directories,
                row.totals.bytes,
                &row.description,
                row.tags.join("\n"),
                &row.actor,
                to_micros(row.created_at),
            ),
        )?;
        Ok(())
    }

    /// Whether the vault itself has a checkpoint of that name.
    pub(crate) fn has_checkpoint(&self, vault: i64, name: &str) -> Result<bool, VfsError> {
        let sql = "SELECT 1 FROM checkpoints WHERE vault = ?1 AND name = ?2";
        Ok(self.one(sql, (vault, name), |_| Ok(()))?.is_some())
    }

    pub(crate) fn delete_checkpoint(&self, vault: i64, name: &str) -> Result<bool, VfsError> {
        let removed =
            self.execute("DELETE FROM checkpoints WHERE vault = ?1 AND name = ?2", (vault, name))?;
        Ok(removed == 1)
    }

    /// Removes the oldest checkpoints of a kind beyond a number; returns how many.
    pub(crate) fn thin_checkpoints(
        &self,
        vault: i64,
        kind: CheckpointKind,
        keep: u64,
    ) -> Result<u64, VfsError> {
        let removed = self.execute(
            "DELETE FROM checkpoints WHERE id IN (
                 SELECT id FROM checkpoints WHERE vault = ?1 AND kind = ?2 ORDER BY id DESC LIMIT -1 OFFSET ?3)",
            (vault, kind.number(), keep),
        )?;
        Ok(removed as u64)
    }
}
