//! Finds the tree that a state names.

use agentiso_store::TreeId;

use crate::VfsError;
use crate::db::Read;
use crate::model::Totals;
use crate::records::VaultRow;
use crate::state::StateRef;

/// A state of a vault's line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Resolved {
    /// The vault of the line that has it.
    pub(crate) vault: i64,
    /// The last change that it has.
    pub(crate) revision: u64,
    pub(crate) tree: TreeId,
    pub(crate) annotations: Option<i64>,
    pub(crate) totals: Option<Totals>,
}

impl Read<'_> {
    pub(crate) fn resolve(&self, row: &VaultRow, state: &StateRef) -> Result<Resolved, VfsError> {
        let now = Resolved {
            vault: row.key,
            revision: row.revision,
            tree: row.tree,
            annotations: row.annotations,
            totals: Some(row.totals),
        };
        match state {
            StateRef::Now => Ok(now),
            StateRef::Tree(tree) => Ok(Resolved { tree: *tree, totals: None, ..now }),
            StateRef::Checkpoint(name) => {
                let found = self.find_checkpoint(row, name)?;
                Ok(Resolved {
                    vault: found.vault,
                    revision: found.revision,
                    tree: found.tree,
                    annotations: found.annotations,
                    totals: Some(found.totals),
                })
            }
            StateRef::Revision(number) if *number == row.revision => Ok(now),
            StateRef::Revision(number) => self.state_after(row, *number),
        }
    }

    fn state_after(&self, row: &VaultRow, number: u64) -> Result<Resolved, VfsError> {
        let line = self.segments(row)?;
        if let Some(found) = self.revision(&line, number)? {
            return Ok(Resolved {
                vault: found.vault,
                revision: number,
                tree: found.after,
                annotations: found.after_annotations,
                totals: Some(found.totals),
            });
        }
        // The change itself is not recorded, because it was pruned or is the creation, but the next one may be.
        if let Some(next) = self.revision(&line, number + 1)? {
            return Ok(Resolved {
                vault: next.vault,
                revision: number,
                tree: next.before,
                annotations: next.before_annotations,
                totals: None,
            });
        }
        // The last state that a fork has of its parent is named in the fork's row, whatever the parent pruned.
        let mut at = row.clone();
        while let Some(parent) = at.parent {
            if parent.revision == number {
                return Ok(Resolved {
                    vault: parent.key,
                    revision: number,
                    tree: parent.tree,
                    annotations: parent.annotations,
                    totals: None,
                });
            }
            let Some(above) = self.vault_by_key(parent.key)? else { break };
            at = above;
        }
        Err(VfsError::VersionNotFound {
            what: format!("the vault {:?}", row.shown()),
            version: format!("revision {number}"),
        })
    }
}
