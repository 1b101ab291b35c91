//! Finds and removes checkpoints.

use agentiso_core::nearest;

use super::kind::Checkpoint;
use super::save::detail;
use crate::db::Read;
use crate::records::{CheckpointRow, Segment, VaultRow};
use crate::{Vaults, VfsError};

impl Vaults {
    /// The checkpoints of a vault, oldest first, after those that its ancestors had when it was forked.
    pub fn checkpoints(&self, vault: &str) -> Result<Vec<Checkpoint>, VfsError> {
        self.records.read(|read| {
            let row = read.vault(vault)?;
            let rows = read.checkpoint_rows(&read.segments(&row)?)?;
            rows.into_iter().map(|found| read.checkpoint(&row, found)).collect()
        })
    }

    /// A checkpoint by its name.
    pub fn checkpoint(&self, vault: &str, name: &str) -> Result<Checkpoint, VfsError> {
        self.records.read(|read| {
            let row = read.vault(vault)?;
            let found = read.find_checkpoint(&row, name)?;
            read.checkpoint(&row, found)
        })
    }

    /// Removes a checkpoint of the vault itself.
    pub fn remove_checkpoint(&self, vault: &str, name: &str) -> Result<Checkpoint, VfsError> {
        self.records.write(|tx| {
            let row = tx.vault(vault)?;
            let found = tx.find_checkpoint(&row, name)?;
            if found.vault != row.key {
                let owner = tx.vault_by_key(found.vault)?.map_or_else(String::new, |owner| owner.shown());
                return Err(VfsError::CheckpointInherited { name: found.name, owner });
            }
            tx.delete_checkpoint(row.key, name)?;
            self.audit_vault(tx, &row, "snapshot_delete", Some(&detail(name)))?;
            Ok(Checkpoint::from_row(found, row.id, false))
        })
    }
}

impl Read<'_> {
    pub(crate) fn find_checkpoint(&self, row: &VaultRow, name: &str) -> Result<CheckpointRow, VfsError> {
        let line = self.segments(row)?;
        self.checkpoint_row(&line, name)?.ok_or_else(|| self.no_checkpoint(row, &line, name))
    }

    fn checkpoint(&self, row: &VaultRow, found: CheckpointRow) -> Result<Checkpoint, VfsError> {
        if found.vault == row.key {
            return Ok(Checkpoint::from_row(found, row.id, false));
        }
        let owner = self.vault_by_key(found.vault)?;
        let id = owner.map_or(row.id, |owner| owner.id);
        Ok(Checkpoint::from_row(found, id, true))
    }

    pub(crate) fn no_checkpoint(&self, row: &VaultRow, line: &[Segment], asked: &str) -> VfsError {
        // Only the suggestion is missing if this fails.
        let names: Vec<String> = match self.checkpoint_rows(line) {
            Ok(rows) => rows.into_iter().map(|row| row.name).collect(),
            Err(error) => return error,
        };
        let nearest = nearest(asked, names.iter().map(String::as_str)).map(str::to_owned);
        VfsError::CheckpointNotFound { vault: row.shown(), asked: asked.chars().take(128).collect(), nearest }
    }
}
