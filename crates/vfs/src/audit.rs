//! The audit log: every operation on a vault, also those that changed no file, by any process.

use agentiso_store::TreePath;
use jiff::Timestamp;

use crate::db::{from_micros, id_of, path_of, to_micros};
use crate::name::VaultId;
use crate::records::Entry;
use crate::{Vaults, VfsError};

const MAX_OPERATION: usize = 64;
const MAX_DETAIL: usize = 64 << 10;

/// Which entries to read.
#[derive(Clone, Debug)]
pub struct AuditQuery {
    /// Only those of this vault, by its name or id. A vault that was removed is found by the name that it had.
    pub vault: Option<String>,
    /// Not older.
    pub since: Option<Timestamp>,
    /// Older.
    pub before: Option<Timestamp>,
    /// Only this operation.
    pub operation: Option<String>,
    /// Most entries that are returned.
    pub limit: usize,
}

impl Default for AuditQuery {
    fn default() -> Self {
        Self { vault: None, since: None, before: None, operation: None, limit: 50 }
    }
}

/// An entry of the audit log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditEntry {
    /// Its number; later entries have larger ones.
    pub id: u64,
    /// When.
    pub at: Timestamp,
    /// The vault.
    pub vault: Option<VaultId>,
    /// The name that the vault had.
    pub vault_name: Option<String>,
    /// What was done.
    pub operation: String,
    /// The path that it was done to.
    pub path: Option<TreePath>,
    /// More about it, as JSON.
    pub detail: Option<String>,
    /// The change of the vault that it was.
    pub revision: Option<u64>,
    /// Who did it.
    pub actor: String,
}

/// Entries of the audit log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AuditPage {
    /// The newest first; no more than the limit.
    pub entries: Vec<AuditEntry>,
    /// How many match.
    pub total: u64,
}

impl Vaults {
    /// Adds an entry; returns its number. For what is done with a vault without changing it, such as a command that was
    /// denied.
    pub fn audit_append(
        &self,
        vault: Option<&str>,
        operation: &str,
        path: Option<&TreePath>,
        detail: Option<&str>,
    ) -> Result<u64, VfsError> {
        if operation.is_empty() || operation.len() > MAX_OPERATION || operation.chars().any(char::is_control)
        {
            let reason = format!("it must have 1 to {MAX_OPERATION} bytes without control characters");
            return Err(VfsError::invalid("the operation", reason));
        }
        if detail.is_some_and(|detail| detail.len() > MAX_DETAIL) {
            return Err(VfsError::invalid(
                "the details",
                format_args!("they have more than {MAX_DETAIL} bytes"),
            ));
        }
        self.records.write(|tx| {
            let row = vault.map(|vault| tx.vault(vault)).transpose()?;
            tx.audit(Entry {
                at: Self::now(),
                vault: row.as_ref(),
                operation,
                path,
                detail,
                revision: None,
                actor: self.actor(),
            })
        })
    }

    /// Reads the audit log, the newest entries first.
    pub fn audit(&self, query: &AuditQuery) -> Result<AuditPage, VfsError> {
        const MATCHES: &str = "(?1 IS NULL OR vault = ?1 OR (?2 IS NOT NULL AND vault_name = ?2))
            AND (?3 IS NULL OR at >= ?3) AND (?4 IS NULL OR at < ?4) AND (?5 IS NULL OR operation = ?5)";
        self.records.read(|read| {
            let (id, name) = match &query.vault {
                None => (None, None),
                Some(asked) => match read.vault(asked) {
                    Ok(row) => (Some(row.id.0.as_bytes().to_vec()), None),
                    Err(VfsError::VaultNotFound { .. }) => {
                        let id = uuid::Uuid::parse_str(asked).map(|id| id.as_bytes().to_vec());
                        (Some(id.unwrap_or_default()), Some(asked.clone()))
                    }
                    Err(error) => return Err(error),
                },
            };
            let since = query.since.map(to_micros);
            let before = query.before.map(to_micros);
            let total = read.count(
                &format!("SELECT count(*) FROM audit WHERE {MATCHES}"),
                (&id, &name, since, before, &query.operation),
            )?;
            if total == 0
                && let Some(asked) = name.as_deref()
            {
                // An unknown vault is an error, and not one without entries.
                read.vault(asked)?;
            }
            let sql = format!(
                "SELECT id, at, vault, vault_name, operation, path, detail, revision, actor FROM audit
                 WHERE {MATCHES} ORDER BY id DESC LIMIT ?6"
            );
            let parameters = (&id, &name, since, before, &query.operation, query.limit as u64);
            let entries = read.all(&sql, parameters, |row| {
                let has_vault = row.get::<_, Option<Vec<u8>>>(2)?.is_some();
                Ok(AuditEntry {
                    id: row.get(0)?,
                    at: from_micros(1, row.get(1)?)?,
                    vault: if has_vault { Some(VaultId(id_of(row, 2)?)) } else { None },
                    vault_name: row.get(3)?,
                    operation: row.get(4)?,
                    path: path_of(row, 5)?,
                    detail: row.get(6)?,
                    revision: row.get(7)?,
                    actor: row.get(8)?,
                })
            })?;
            Ok(AuditPage { entries, total })
        })
    }

    /// Removes entries: those of one vault or all, and perhaps only those that are older. That it was done is an entry.
    pub fn audit_clear(&self, vault: Option<&str>, before: Option<Timestamp>) -> Result<u64, VfsError> {
        self.records.write(|tx| {
            let row = vault.map(|vault| tx.vault(vault)).transpose()?;
            let id = row.as_ref().map(|row| *row.id.0.as_bytes());
            let removed = tx.execute(
                "DELETE FROM audit WHERE (?1 IS NULL OR vault = ?1) AND (?2 IS NULL OR at < ?2)",
                (id, before.map(to_micros)),
            )? as u64;
            tx.audit(Entry {
                at: Self::now(),
                vault: row.as_ref(),
                operation: "audit_clear",
                path: None,
                detail: Some(&format!("{{\"entries\":{removed}}}")),
                revision: None,
                actor: self.actor(),
            })?;
            Ok(removed)
        })
    }

    /// How many entries the audit log keeps; the oldest are removed beyond it.
    pub fn set_audit_limit(&self, entries: u64) -> Result<(), VfsError> {
        self.records.write(|tx| {
            tx.execute(
                "INSERT INTO settings (name, value) VALUES ('audit_max_entries', ?1)
                 ON CONFLICT (name) DO UPDATE SET value = ?1",
                [entries.to_string()],
            )?;
            Ok(())
        })
    }
}
