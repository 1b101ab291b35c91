//! Removes vaults: one by one, and those that have expired.

use std::fs;

use crate::db::to_micros;
use crate::model::{RemoveOptions, RemovedVault};
use crate::records::VaultRow;
use crate::{Vaults, VfsError};

impl Vaults {
    /// Removes a vault with its checkpoints. Space is freed by the next garbage collection.
    pub fn remove(&self, vault: &str, options: RemoveOptions) -> Result<RemovedVault, VfsError> {
        let removed = self.records.write(|tx| {
            let row = tx.vault(vault)?;
            let runs = live_uses(tx, row.key)?;
            if runs > 0 && !options.force {
                return Err(VfsError::VaultBusy { name: row.shown(), runs });
            }
            self.remove_row(tx, &row, "vault_delete")
        })?;
        self.forget_lock(&removed);
        Ok(removed)
    }

    /// Removes up to `limit` vaults whose time has come and in which nothing runs; returns their names.
    pub fn sweep_expired(&self, limit: usize) -> Result<Vec<String>, VfsError> {
        let now = to_micros(Self::now());
        let sql =
            "SELECT uuid FROM vaults WHERE expires_at IS NOT NULL AND expires_at <= ?1 AND name IS NOT NULL
                   ORDER BY expires_at LIMIT ?2";
        let due =
            self.records.read(|read| read.all(sql, (now, limit as u64), |row| crate::db::id_of(row, 0)))?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let removed = self.records.write(|tx| {
            let mut removed = Vec::new();
            for id in due {
                // It may have been removed, or have got more time, since it was listed.
                let row = match tx.vault(&id.to_string()) {
                    Ok(row) => row,
                    Err(VfsError::VaultNotFound { .. }) => continue,
                    Err(error) => return Err(error),
                };
                let is_due = row.expires_at.is_some_and(|at| to_micros(at) <= now);
                if is_due && live_uses(tx, row.key)? == 0 {
                    removed.push(self.remove_row(tx, &row, "vault_expire")?);
                }
            }
            Ok(removed)
        })?;
        removed.iter().for_each(|removed| self.forget_lock(removed));
        Ok(removed.into_iter().map(|removed| removed.name).collect())
    }

    fn remove_row(
        &self,
        tx: &crate::db::Tx<'_>,
        row: &VaultRow,
        operation: &str,
    ) -> Result<RemovedVault, VfsError> {
        let checkpoints = tx.count("SELECT count(*) FROM checkpoints WHERE vault = ?1", [row.key])?;
        self.audit_vault(tx, row, operation, None)?;
        let is_kept_for_forks = tx.remove_vault(row, Self::now())?;
        Ok(RemovedVault { id: row.id, name: row.shown(), checkpoints, is_kept_for_forks })
    }

    /// A lock file that stays is harmless.
    fn forget_lock(&self, removed: &RemovedVault) {
        let _ = fs::remove_file(self.directory().join("locks").join(removed.id.to_string()));
    }
}

/// Runs in a vault whose processes are alive.
pub(crate) fn live_uses(read: &crate::db::Read<'_>, key: i64) -> Result<u64, VfsError> {
    let owners = read.all("SELECT pid, started FROM uses WHERE vault = ?1", [key], |row| {
        Ok(crate::owner::Owner { pid: row.get(0)?, started: row.get(1)? })
    })?;
    Ok(owners.into_iter().filter(|owner| owner.is_alive()).count() as u64)
}
