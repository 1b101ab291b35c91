//! Lists and describes vaults.

use crate::model::VaultInfo;
use crate::{Vaults, VfsError};

impl Vaults {
    /// All vaults, by name.
    pub fn list(&self) -> Result<Vec<VaultInfo>, VfsError> {
        self.records.read(|read| {
            let rows = read.vault_rows()?;
            rows.into_iter().map(|row| read.vault_info(row)).collect()
        })
    }

    /// A vault by name or id.
    pub fn info(&self, vault: &str) -> Result<VaultInfo, VfsError> {
        self.records.read(|read| read.vault_info(read.vault(vault)?))
    }
}
