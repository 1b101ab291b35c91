//! Names, limits, retention and time to live.

use jiff::Timestamp;

use crate::db::{Tx, to_micros};
use crate::model::{QuotaStatus, Quotas, Retention, VaultInfo};
use crate::name::VaultName;
use crate::records::VaultRow;
use crate::{Vaults, VfsError};

impl Vaults {
    /// Gives a vault another name. Its id stays.
    pub fn rename(&self, vault: &str, name: &VaultName) -> Result<VaultInfo, VfsError> {
        self.records.write(|tx| {
            let row = tx.vault(vault)?;
            let taken = tx.one(
                "SELECT 1 FROM vaults WHERE name = ?1 AND id <> ?2",
                (name.as_str(), row.key),
                |_| Ok(()),
            )?;
            if taken.is_some() {
                return Err(VfsError::VaultExists { name: name.to_string() });
            }
            tx.execute("UPDATE vaults SET name = ?2 WHERE id = ?1", (row.key, name.as_str()))?;
            let row = VaultRow { name: Some(name.to_string()), ..row };
            self.audit_vault(tx, &row, "vault_rename", None)?;
            tx.vault_info(row)
        })
    }

    /// Changes when a vault is removed by itself; nothing for never.
    pub fn set_expiry(&self, vault: &str, expires_at: Option<Timestamp>) -> Result<(), VfsError> {
        self.set(vault, "vault_expiry", |tx, key| {
            tx.execute("UPDATE vaults SET expires_at = ?2 WHERE id = ?1", (key, expires_at.map(to_micros)))
        })
    }

    /// Limits and what is used of them.
    pub fn quotas(&self, vault: &str) -> Result<QuotaStatus, VfsError> {
        let row = self.records.read(|read| read.vault(vault))?;
        Ok(QuotaStatus { quotas: row.quotas, totals: row.totals })
    }

    /// Replaces the limits. A vault that exceeds them already may only shrink.
    pub fn set_quotas(&self, vault: &str, quotas: Quotas) -> Result<QuotaStatus, VfsError> {
        self.set(vault, "quota_set", |tx, key| {
            let sql = "UPDATE vaults SET max_bytes = ?2, max_files = ?3, max_file_bytes = ?4 WHERE id = ?1";
            tx.execute(sql, (key, quotas.max_bytes, quotas.max_files, quotas.max_file_bytes))
        })?;
        self.quotas(vault)
    }

    /// How much history the vault keeps.
    pub fn retention(&self, vault: &str) -> Result<Retention, VfsError> {
        self.records.read(|read| read.retention(read.vault(vault)?.key))
    }

    /// Changes how much history the vault keeps. Applied by the next `maintain`.
    pub fn set_retention(&self, vault: &str, retention: Retention) -> Result<(), VfsError> {
        self.set(vault, "retention_set", |tx, key| {
            tx.execute(
                "UPDATE vaults SET keep_revisions = ?2, keep_auto = ?3, keep_undo = ?4, keep_days = ?5 WHERE id = ?1",
                (
                    key,
                    retention.revisions,
                    retention.auto_checkpoints,
                    retention.undo_points,
                    retention.max_age_days,
                ),
            )
        })
    }

    fn set(
        &self,
        vault: &str,
        operation: &str,
        change: impl FnOnce(&Tx<'_>, i64) -> rusqlite::Result<usize>,
    ) -> Result<(), VfsError> {
        self.records.write(|tx| {
            let row = tx.vault(vault)?;
            change(tx, row.key)?;
            self.audit_vault(tx, &row, operation, None)
        })
    }
}
