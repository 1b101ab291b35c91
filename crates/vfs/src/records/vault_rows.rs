//! Rows of vaults.

use agentiso_core::nearest;
use agentiso_store::TreeId;
use jiff::Timestamp;
use rusqlite::Row;
use uuid::Uuid;

use crate::VfsError;
use crate::db::{Read, Tx, from_micros, id_of, to_micros, tree_of};
use crate::model::{Parent, Quotas, Retention, Totals, VaultInfo};
use crate::name::VaultId;

const COLUMNS: &str = "id, uuid, name, description, tree, annotations, revision, files, directories, bytes,
    parent, parent_revision, parent_tree, parent_annotations, max_bytes, max_files, max_file_bytes,
    created_at, modified_at, expires_at";

#[derive(Clone, Debug)]
pub(crate) struct VaultRow {
    pub(crate) key: i64,
    pub(crate) id: VaultId,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) tree: TreeId,
    pub(crate) annotations: Option<i64>,
    pub(crate) revision: u64,
    pub(crate) totals: Totals,
    pub(crate) parent: Option<ParentRow>,
    pub(crate) quotas: Quotas,
    pub(crate) created_at: Timestamp,
    pub(crate) modified_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ParentRow {
    pub(crate) key: i64,
    pub(crate) revision: u64,
    pub(crate) tree: TreeId,
    pub(crate) annotations: Option<i64>,
}

impl VaultRow {
    /// The name for messages.
    pub(crate) fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.id.to_string())
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let parent: Option<i64> = row.get(10)?;
        let parent = match parent {
            Some(key) => Some(ParentRow {
                key,
                revision: row.get(11)?,
                tree: tree_of(row, 12)?,
                annotations: row.get(13)?,
            }),
            None => None,
        };
        let expires: Option<i64> = row.get(19)?;
        Ok(Self {
            key: row.get(0)?,
            id: VaultId(id_of(row, 1)?),
            name: row.get(2)?,
            description: row.get(3)?,
            tree: tree_of(row, 4)?,
            annotations: row.get(5)?,
            revision: row.get(6)?,
            totals: Totals { files: row.get(7)?, directories: row.get(8)?, bytes: row.get(9)? },
            parent,
            quotas: Quotas { max_bytes: row.get(14)?, max_files: row.get(15)?, max_file_bytes: row.get(16)? },
            created_at: from_micros(17, row.get(17)?)?,
            modified_at: from_micros(18, row.get(18)?)?,
            expires_at: expires.map(|at| from_micros(19, at)).transpose()?,
        })
    }
}

impl Read<'_> {
    /// Finds a vault by name or id.
    pub(crate) fn vault(&self, asked: &str) -> Result<VaultRow, VfsError> {
        let sql = format!("SELECT {COLUMNS} FROM vaults WHERE name = ?1");
        if let Some(found) = self.one(&sql, [asked], VaultRow::read)? {
            return Ok(found);
        }
        if let Ok(id) = Uuid::parse_str(asked) {
            let sql = format!("SELECT {COLUMNS} FROM vaults WHERE uuid = ?1 AND name IS NOT NULL");
            if let Some(found) = self.one(&sql, [id.as_bytes()], VaultRow::read)? {
                return Ok(found);
            }
        }
        let names =
            self.all("SELECT name FROM vaults WHERE name IS NOT NULL", [], |row| row.get::<_, String>(0))?;
        let nearest = nearest(asked, names.iter().map(String::as_str)).map(str::to_owned);
        Err(VfsError::VaultNotFound { asked: asked.chars().take(80).collect(), nearest })
    }

    /// A vault by its key, removed or not.
    pub(crate) fn vault_by_key(&self, key: i64) -> Result<Option<VaultRow>, VfsError> {
        self.one(&format!("SELECT {COLUMNS} FROM vaults WHERE id = ?1"), [key], VaultRow::read)
    }

    pub(crate) fn vault_rows(&self) -> Result<Vec<VaultRow>, VfsError> {
        let sql = format!("SELECT {COLUMNS} FROM vaults WHERE name IS NOT NULL ORDER BY name");
        self.all(&sql, [], VaultRow::read)
    }

    pub(crate) fn fork_rows(&self, key: i64) -> Result<Vec<VaultRow>, VfsError> {
        self.all(
            &format!("SELECT {COLUMNS} FROM vaults WHERE parent = ?1 ORDER BY id"),
            [key],
            VaultRow::read,
        )
    }

    pub(crate) fn parent_of(&self, row: &VaultRow) -> Result<Option<Parent>, VfsError> {
        let Some(parent) = row.parent else { return Ok(None) };
        let found = self.vault_by_key(parent.key)?;
        Ok(found.map(|found| Parent {
            id: found.id,
            name: found.name,
            revision: parent.revision,
            tree: parent.tree,
        }))
    }

    pub(crate) fn vault_info(&self, row: VaultRow) -> Result<VaultInfo, VfsError> {
        let forks =
            self.count("SELECT count(*) FROM vaults WHERE parent = ?1 AND name IS NOT NULL", [row.key])?;
        let checkpoints = self.count("SELECT count(*) FROM checkpoints WHERE vault = ?1", [row.key])?;
        let uses = self.count("SELECT count(*) FROM uses WHERE vault = ?1", [row.key])?;
        let parent = self.parent_of(&row)?;
        Ok(VaultInfo {
            id: row.id,
            name: row.shown(),
            description: row.description,
            tree: row.tree,
            revision: row.revision,
            totals: row.totals,
            created_at: row.created_at,
            modified_at: row.modified_at,
            expires_at: row.expires_at,
            parent,
            forks,
            checkpoints,
            uses,
            quotas: row.quotas,
        })
    }

    pub(crate) fn retention(&self, key: i64) -> Result<Retention, VfsError> {
        let sql = "SELECT keep_revisions, keep_auto, keep_undo, keep_days FROM vaults WHERE id = ?1";
        let found = self.one(sql, [key], |row| {
            Ok(Retention {
                revisions: row.get(0)?,
                auto_checkpoints: row.get(1)?,
                undo_points: row.get(2)?,
                max_age_days: row.get(3)?,
            })
        })?;
        Ok(found.unwrap_or_default())
    }
}

impl Tx<'_> {
    /// Adds a vault and returns its key. `row.key` does not count.
    pub(crate) fn insert_vault(&self, row: &VaultRow, retention: &Retention) -> Result<i64, VfsError> {
        let name = row.name.as_deref().unwrap_or_default();
        let taken = self.one("SELECT 1 FROM vaults WHERE name = ?1", [name], |_| Ok(()))?;
        if taken.is_some() {
            return Err(VfsError::VaultExists { name: name.to_owned() });
        }
        let sql = format!(
            "INSERT INTO vaults ({}, keep_revisions, keep_auto, keep_undo, keep_days)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
                     ?20, ?21, ?22, ?23)",
            COLUMNS.trim_start_matches("id, ")
        );
        self.execute(
            &sql,
            rusqlite::params![
                row.id.0.as_bytes(),
                row.name,
                row.description,
                row.tree.0.as_bytes(),
                row.annotations,
                row.revision,
                row.totals.files,
                row.totals.directories,
                row.totals.bytes,
                row.parent.map(|parent| parent.key),
                row.parent.map(|parent| parent.revision),
                row.parent.map(|parent| *parent.tree.0.as_bytes()),
                row.parent.and_then(|parent| parent.annotations),
                row.quotas.max_bytes,
                row.quotas.max_files,
                row.quotas.max_file_bytes,
                to_micros(row.created_at),
                to_micros(row.modified_at),
                row.expires_at.map(to_micros),
                retention.revisions,
                retention.auto_checkpoints,
                retention.undo_points,
                retention.max_age_days,
            ],
        )?;
        Ok(self.last_id())
    }

    /// Sets the working state, if the vault still has the revision that the change began with.
    pub(crate) fn move_vault(
        &self,
        key: i64,
        expected: u64,
        (tree, annotations, totals): (TreeId, Option<i64>, Totals),
        now: Timestamp,
    ) -> Result<bool, VfsError> {
        let changed = self.execute(
            "UPDATE vaults SET tree = ?3, annotations = ?4, files = ?5, directories = ?6, bytes = ?7,
                    revision = ?2 + 1, modified_at = ?8
             WHERE id = ?1 AND revision = ?2 AND name IS NOT NULL",
            (
                key,
                expected,
                tree.0.as_bytes(),
                annotations,
                totals.files,
                totals.directories,
                totals.bytes,
                to_micros(now),
            ),
        )?;
        Ok(changed == 1)
    }

    /// Removes a vault. It keeps its row, without a name, while forks need its history; otherwise ancestors that were kept
    /// for it alone go, too.
    pub(crate) fn remove_vault(&self, row: &VaultRow, now: Timestamp) -> Result<bool, VfsError> {
        self.execute("DELETE FROM uses WHERE vault = ?1", [row.key])?;
        let sql = "UPDATE vaults SET name = NULL, removed_at = ?2, expires_at = NULL WHERE id = ?1";
        self.execute(sql, (row.key, to_micros(now)))?;
        let mut next = Some(row.key);
        while let Some(key) = next.take() {
            let parent: Option<Option<i64>> = self.one(
                "SELECT parent FROM vaults WHERE id = ?1 AND name IS NULL
                     AND NOT EXISTS (SELECT 1 FROM vaults AS forks WHERE forks.parent = ?1)",
                [key],
                |row| row.get(0),
            )?;
            if let Some(parent) = parent {
                self.execute("DELETE FROM vaults WHERE id = ?1", [key])?;
                next = parent;
            }
        }
        Ok(self.one("SELECT 1 FROM vaults WHERE id = ?1", [row.key], |_| Ok(()))?.is_some())
    }

    /// Names that can still be given to forks of a vault.
    pub(crate) fn free_fork_names(&self, source: &str, count: usize) -> Result<Vec<String>, VfsError> {
        let stem: String = {
            let room = crate::name::VaultName::MAX - "-fork-00000000".len();
            let mut end = source.len().min(room);
            while !source.is_char_boundary(end) {
                end -= 1;
            }
            source.get(..end).unwrap_or_default().to_owned()
        };
        let taken: std::collections::HashSet<String> = self
            .all("SELECT name FROM vaults WHERE name IS NOT NULL", [], |row| row.get::<_, String>(0))?
            .into_iter()
            .collect();
        let names = (1_u64..).map(|number| format!("{stem}-fork-{number}"));
        Ok(names.filter(|name| !taken.contains(name)).take(count).collect())
    }
}
