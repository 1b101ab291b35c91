//! Forks: new vaults that begin with a state of another one. One transaction for any number of them.

use uuid::Uuid;

use crate::db::Tx;
use crate::files::View;
use crate::model::{ForkNames, ForkVault, Parent, VaultInfo};
use crate::name::VaultId;
use crate::records::{ParentRow, VaultRow};
use crate::state::StateRef;
use crate::{Vaults, VfsError};

/// Most forks of one call.
const MAX_FORKS: usize = 10_000;

impl Vaults {
    /// Forks a vault. All forks are made, or none. They share everything with their parent until they change it.
    pub fn fork(&self, request: &ForkVault) -> Result<Vec<VaultInfo>, VfsError> {
        let count = match &request.names {
            ForkNames::Given(names) => names.len(),
            ForkNames::Automatic(count) => *count,
        };
        if !(1..=MAX_FORKS).contains(&count) {
            return Err(VfsError::invalid(
                "the number of forks",
                format_args!("it must be 1 to {MAX_FORKS}"),
            ));
        }
        // Another state than the present one is kept, and counted, before the transaction.
        let earlier = match &request.state {
            StateRef::Now => None,
            state => {
                let view = self.view(&request.source, state)?;
                let totals = view.totals()?;
                Some((view, totals))
            }
        };
        let now = Self::now();
        self.records.write(|tx| {
            let source = tx.vault(&request.source)?;
            let (start, totals) = match &earlier {
                None => (start_now(&source), source.totals),
                Some((view, totals)) => (start_of(tx, &source, view)?, *totals),
            };
            let retention = tx.retention(source.key)?;
            let names = match &request.names {
                ForkNames::Given(names) => names.iter().map(ToString::to_string).collect(),
                ForkNames::Automatic(count) => tx.free_fork_names(&source.shown(), *count)?,
            };
            let parent = tx.vault_by_key(start.key)?.map(|parent| Parent {
                id: parent.id,
                name: parent.name,
                revision: start.revision,
                tree: start.tree,
            });
            let mut forks = Vec::with_capacity(names.len());
            for name in names {
                let row = VaultRow {
                    key: 0,
                    id: VaultId(Uuid::now_v7()),
                    name: Some(name.clone()),
                    description: request.description.clone(),
                    tree: start.tree,
                    annotations: start.annotations,
                    revision: start.revision,
                    totals,
                    parent: Some(start),
                    quotas: source.quotas,
                    created_at: now,
                    modified_at: now,
                    expires_at: request.expires_at,
                };
                let key = tx.insert_vault(&row, &retention)?;
                self.audit_vault(tx, &VaultRow { key, ..row.clone() }, "vault_fork", None)?;
                forks.push(VaultInfo {
                    id: row.id,
                    name,
                    description: row.description,
                    tree: row.tree,
                    revision: row.revision,
                    totals: row.totals,
                    created_at: now,
                    modified_at: now,
                    expires_at: row.expires_at,
                    parent: parent.clone(),
                    forks: 0,
                    checkpoints: 0,
                    uses: 0,
                    quotas: row.quotas,
                });
            }
            Ok(forks)
        })
    }
}

fn start_now(source: &VaultRow) -> ParentRow {
    ParentRow {
        key: source.key,
        revision: source.revision,
        tree: source.tree,
        annotations: source.annotations,
    }
}

/// A state of an ancestor makes a fork of that ancestor.
fn start_of(tx: &Tx<'_>, source: &VaultRow, view: &View) -> Result<ParentRow, VfsError> {
    let (key, revision) = view.origin().unwrap_or((source.key, source.revision));
    let annotations = tx.store_annotations(view.annotations())?;
    Ok(ParentRow { key, revision, tree: view.tree(), annotations })
}
