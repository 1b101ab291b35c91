//! Where a vault comes from, and what came from it.

use crate::model::{Fork, Lineage};
use crate::{Vaults, VfsError};

impl Vaults {
    /// The ancestors and the direct forks of a vault.
    pub fn lineage(&self, vault: &str) -> Result<Lineage, VfsError> {
        self.records.read(|read| {
            let row = read.vault(vault)?;
            let forks = read.fork_rows(row.key)?;
            let mut ancestors = Vec::new();
            let mut at = Some(row);
            while let Some(row) = at.take() {
                let Some(parent) = read.parent_of(&row)? else { break };
                ancestors.push(parent);
                if let Some(above) = row.parent {
                    at = read.vault_by_key(above.key)?;
                }
            }
            let fork = |row: crate::records::VaultRow| Fork {
                id: row.id,
                revision: row.parent.map_or(0, |parent| parent.revision),
                name: row.name,
                created_at: row.created_at,
                expires_at: row.expires_at,
            };
            Ok(Lineage { ancestors, forks: forks.into_iter().map(fork).collect() })
        })
    }
}
