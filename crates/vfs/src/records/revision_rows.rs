//! Rows of the journal.

use agentiso_store::{TreeId, TreePath};
use jiff::Timestamp;
use rusqlite::Row;

use crate::VfsError;
use crate::db::{Read, Tx, from_micros, path_of, to_micros, tree_of};
use crate::model::Totals;
use crate::records::Segment;

const COLUMNS: &str = "vault, revision, before_tree, before_annotations, after_tree, after_annotations,
    files, directories, bytes, operation, path, detail, actor, at, target";

#[derive(Clone, Debug)]
pub(crate) struct RevisionRow {
    pub(crate) vault: i64,
    pub(crate) revision: u64,
    pub(crate) before: TreeId,
    pub(crate) before_annotations: Option<i64>,
    pub(crate) after: TreeId,
    pub(crate) after_annotations: Option<i64>,
    /// After the change.
    pub(crate) totals: Totals,
    pub(crate) operation: String,
    pub(crate) path: Option<TreePath>,
    pub(crate) detail: Option<String>,
    pub(crate) actor: String,
    pub(crate) at: Timestamp,
    pub(crate) target: Option<u64>,
}

impl RevisionRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            vault: row.get(0)?,
            revision: row.get(1)?,
            before: tree_of(row, 2)?,
            before_annotations: row.get(3)?,
            after: tree_of(row, 4)?,
            after_annotations: row.get(5)?,
            totals: Totals { files: row.get(6)?, directories: row.get(7)?, bytes: row.get(8)? },
            operation: row.get(9)?,
            path: path_of(row, 10)?,
            detail: row.get(11)?,
            actor: row.get(12)?,
            at: from_micros(13, row.get(13)?)?,
            target: row.get(14)?,
        })
    }
}

impl Read<'_> {
    /// A change by its number.
    pub(crate) fn revision(
        &self,
        segments: &[Segment],
        number: u64,
    ) -> Result<Option<RevisionRow>, VfsError> {
        // Numbers of a fork continue those of its parent, so only one vault of the line has this one.
        for segment in segments {
            let sql = format!("SELECT {COLUMNS} FROM revisions WHERE vault = ?1 AND revision = ?2");
            if number <= segment.to
                && let Some(found) = self.one(&sql, (segment.vault, number), RevisionRow::read)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The changes of a line before a number, newest first.
    pub(crate) fn revisions(
        &self,
        segments: &[Segment],
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RevisionRow>, VfsError> {
        let mut found = Vec::new();
        for segment in segments {
            let to = before.map_or(segment.to, |before| segment.to.min(before.saturating_sub(1)));
            let sql = format!(
                "SELECT {COLUMNS} FROM revisions WHERE vault = ?1 AND revision <= ?2
                 ORDER BY revision DESC LIMIT ?3"
            );
            let left = limit.saturating_sub(found.len());
            if left == 0 {
                break;
            }
            found.extend(self.all(&sql, (segment.vault, to, left as u64), RevisionRow::read)?);
        }
        Ok(found)
    }

    /// The oldest change that is still recorded.
    pub(crate) fn oldest_revision(&self, vault: i64) -> Result<Option<RevisionRow>, VfsError> {
        let sql = format!("SELECT {COLUMNS} FROM revisions WHERE vault = ?1 ORDER BY revision LIMIT 1");
        self.one(&sql, [vault], RevisionRow::read)
    }
}

impl Tx<'_> {
    pub(crate) fn insert_revision(&self, row: &RevisionRow) -> Result<(), VfsError> {
        let sql = format!(
            "INSERT INTO revisions ({COLUMNS})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"
        );
        self.execute(
            &sql,
            rusqlite::params![
                row.vault,
                row.revision,
                row.before.0.as_bytes(),
                row.before_annotations,
                row.after.0.as_bytes(),
                row.after_annotations,
                row.totals.files,
                row.totals.directories,
                row.totals.bytes,
                row.operation,
                row.path.as_ref().map(TreePath::as_bytes),
                row.detail,
                row.actor,
                to_micros(row.at),
                row.target,
            ],
        )?;
        Ok(())
    }
}
