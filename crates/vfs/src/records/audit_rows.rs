//! The audit log.

use agentiso_store::TreePath;
use jiff::Timestamp;

use crate::VfsError;
use crate::db::{Tx, to_micros};
use crate::records::VaultRow;

/// An entry to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) at: Timestamp,
    pub(crate) vault: Option<&'e VaultRow>,
    pub(crate) operation: &'e str,
    pub(crate) path: Option<&'e TreePath>,
    pub(crate) detail: Option<&'e str>,
    pub(crate) revision: Option<u64>,
    pub(crate) actor: &'e str,
}

/// When the log has this many entries more than its limit, the oldest are removed.
const SLACK: u64 = 1_000;
const DEFAULT_LIMIT: u64 = 100_000;

impl Tx<'_> {
    pub(crate) fn audit(&self, entry: Entry<'_>) -> Result<u64, VfsError> {
        self.execute(
            "INSERT INTO audit (at, vault, vault_name, operation, path, detail, revision, actor)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            (
                to_micros(entry.at),
                entry.vault.map(|row| *row.id.0.as_bytes()),
                entry.vault.and_then(|row| row.name.as_deref()),
                entry.operation,
                entry.path.map(TreePath::as_bytes),
                entry.detail,
                entry.revision,
                entry.actor,
            ),
        )?;
        let id = self.last_id().max(0) as u64;
        if id.is_multiple_of(SLACK) {
            let limit = self.setting("audit_max_entries")?.unwrap_or(DEFAULT_LIMIT);
            self.execute("DELETE FROM audit WHERE id <= ?1", [id.saturating_sub(limit)])?;
        }
        Ok(id)
    }
}

impl crate::db::Read<'_> {
    /// A number among the settings.
    pub(crate) fn setting(&self, name: &str) -> Result<Option<u64>, VfsError> {
        let found =
            self.one("SELECT value FROM settings WHERE name = ?1", [name], |row| row.get::<_, String>(0))?;
        Ok(found.and_then(|value| value.parse().ok()))
    }
}
