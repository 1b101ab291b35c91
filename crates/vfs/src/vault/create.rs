//! Creates empty vaults.

use agentiso_store::{Builder, Meta, Root, Session, Time, TreeId};
use rustix::process::{getegid, geteuid};
use uuid::Uuid;

use crate::model::{CreateVault, Retention, Totals, VaultInfo};
use crate::name::VaultId;
use crate::records::{Entry, VaultRow};
use crate::{Vaults, VfsError};

impl Vaults {
    /// Creates an empty vault.
    pub fn create(&self, request: &CreateVault) -> Result<VaultInfo, VfsError> {
        let session = self.store.begin()?;
        let tree = empty_tree(&session)?;
        let _lease = session.commit(&[Root::Tree(tree)])?;
        let now = Self::now();
        let row = VaultRow {
            key: 0,
            id: VaultId(Uuid::now_v7()),
            name: Some(request.name.to_string()),
            description: request.description.clone(),
            tree,
            annotations: None,
            revision: 0,
            totals: Totals::default(),
            parent: None,
            quotas: request.quotas,
            created_at: now,
            modified_at: now,
            expires_at: request.expires_at,
        };
        self.records.write(|tx| {
            let key = tx.insert_vault(&row, &Retention::default())?;
            let row = VaultRow { key, ..row };
            self.audit_vault(tx, &row, "vault_create", None)?;
            tx.vault_info(row)
        })
    }

    pub(crate) fn audit_vault(
        &self,
        tx: &crate::db::Tx<'_>,
        row: &VaultRow,
        operation: &str,
        detail: Option<&str>,
    ) -> Result<(), VfsError> {
        let entry = Entry {
            at: Self::now(),
            vault: Some(row),
            operation,
            path: None,
            detail,
            revision: None,
            actor: &self.actor,
        };
        tx.audit(entry).map(drop)
    }
}

/// Metadata of something that is made now, by this user.
pub(crate) fn fresh_meta(mode: u16) -> Meta {
    let now = Vaults::now();
    let time = Time { seconds: now.as_second(), nanos: now.subsec_nanosecond().max(0) as u32 };
    Meta { mode, uid: geteuid().as_raw(), gid: getegid().as_raw(), mtime: time, attributes: None }
}

/// A tree without entries.
fn empty_tree(session: &Session) -> Result<TreeId, VfsError> {
    Ok(Builder::new(fresh_meta(0o755)).finish(session)?)
}
