//! Shows history.

use std::str::FromStr;

use agentiso_store::{Node, TreeId, TreePath};
use jiff::Timestamp;

use super::versions::{Step, steps};
use crate::checkpoint::find;
use crate::files::{FileBytes, Stat, View, stat_node};
use crate::model::Totals;
use crate::name::VaultId;
use crate::state::{StateRef, revision_number};
use crate::{Vaults, VfsError};

/// Which version of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VersionRef {
    /// The number of the version; 1 is the first.
    Number(u64),
    /// What the file was after this change of the vault.
    Revision(u64),
}

/// A number, or a revision such as `r17`.
impl FromStr for VersionRef {
    type Err = VfsError;

    fn from_str(text: &str) -> Result<Self, VfsError> {
        if let Some(revision) = revision_number(text) {
            return Ok(Self::Revision(revision));
        }
        let shown = || text.chars().take(80).collect::<String>();
        let reason = "it must be a number such as 3, or a revision such as r17";
        text.parse()
            .map(Self::Number)
            .map_err(|_| VfsError::invalid(format!("the version {:?}", shown()), reason))
    }
}

/// A version of a file, or its deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// Its number; nothing if the file was deleted here.
    pub version: Option<u64>,
    /// The change that made it.
    pub revision: u64,
    /// When; nothing if that is not recorded any more.
    pub at: Option<Timestamp>,
    /// Who; nothing if that is not recorded any more.
    pub actor: Option<String>,
    /// What was done; nothing if that is not recorded any more.
    pub operation: Option<String>,
    /// The file.
    pub stat: Option<Stat>,
    /// Whether it is what the vault has now.
    pub is_current: bool,
}

/// A change of a vault.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Revision {
    /// The vault in which it was made: this one, or one that it was forked from.
    pub vault: VaultId,
    /// Its number.
    pub revision: u64,
    /// The tree before.
    pub before: TreeId,
    /// The tree after.
    pub after: TreeId,
    /// How much the vault had afterwards.
    pub totals: Totals,
    /// What was done.
    pub operation: String,
    /// The path that it was done to.
    pub path: Option<TreePath>,
    /// More about it, as JSON.
    pub detail: Option<String>,
    /// Who made it.
    pub actor: String,
    /// When.
    pub at: Timestamp,
    /// What an undo took back, or the undo that a redo took back.
    pub target: Option<u64>,
}

impl Vaults {
    /// The versions of a file, newest first, with its deletions. A fork has those of its parent, too.
    pub fn log(&self, vault: &str, path: &TreePath, limit: usize) -> Result<Vec<Version>, VfsError> {
        let (tree, mut steps) = self.records.read(|read| {
            let row = read.vault(vault)?;
            Ok((row.tree, steps(read, &self.store, &row, path)?))
        })?;
        if steps.is_empty() {
            return Err(self.no_history(tree, path)?);
        }
        let last = steps.last().map(|step| step.revision);
        steps.retain(|step| !step.is_hidden);
        let mut versions = Vec::new();
        for step in steps.into_iter().rev().take(limit) {
            let view = match &step.change {
                Some(change) => change.after,
                None => self.view(vault, &StateRef::Revision(step.revision))?.tree(),
            };
            versions.push(self.version(step, view, path, last)?);
        }
        Ok(versions)
    }

    fn version(
        &self,
        step: Step,
        tree: TreeId,
        path: &TreePath,
        last: Option<u64>,
    ) -> Result<Version, VfsError> {
        let node = if step.number.is_some() { find(&self.store, tree, path)? } else { None };
        let stat = node.map(|node| stat_node(&self.store, path.clone(), &node)).transpose()?;
        let is_current = last == Some(step.revision) && step.number.is_some();
        let (at, actor, operation) = match step.change {
            Some(change) => (Some(change.at), Some(change.actor), Some(change.operation)),
            None => (None, None, None),
        };
        Ok(Version { version: step.number, revision: step.revision, at, actor, operation, stat, is_current })
    }

    /// Why a path has no versions.
    fn no_history(&self, tree: TreeId, path: &TreePath) -> Result<VfsError, VfsError> {
        Ok(match find(&self.store, tree, path)? {
            Some(Node::Directory(_)) => VfsError::IsADirectory { path: path.clone() },
            _ => VfsError::NotFound { path: path.clone() },
        })
    }

    /// A state that has a version of a file.
    pub(super) fn view_of_version(
        &self,
        vault: &str,
        path: &TreePath,
        version: VersionRef,
    ) -> Result<View, VfsError> {
        let revision = match version {
            VersionRef::Revision(revision) => revision,
            VersionRef::Number(number) => {
                let (tree, steps) = self.steps_of(vault, path)?;
                if steps.is_empty() {
                    return Err(self.no_history(tree, path)?);
                }
                let found = steps.iter().find(|step| step.number == Some(number) && !step.is_hidden);
                let missing = || VfsError::VersionNotFound {
                    what: path.to_string(),
                    version: format!("version {number}"),
                };
                found.ok_or_else(missing)?.revision
            }
        };
        self.view(vault, &StateRef::Revision(revision))
    }

    pub(super) fn steps_of(&self, vault: &str, path: &TreePath) -> Result<(TreeId, Vec<Step>), VfsError> {
        self.records.read(|read| {
            let row = read.vault(vault)?;
            Ok((row.tree, steps(read, &self.store, &row, path)?))
        })
    }

    /// Reads a version of a file of at most `max` bytes.
    pub fn read_version(
        &self,
        vault: &str,
        path: &TreePath,
        version: VersionRef,
        max: usize,
    ) -> Result<FileBytes, VfsError> {
        self.view_of_version(vault, path, version)?.read(path, None, max)
    }

    /// The changes of a vault before a number, newest first. A fork has those of its parent, too.
    pub fn revisions(
        &self,
        vault: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<Revision>, VfsError> {
        self.records.read(|read| {
            let row = read.vault(vault)?;
            let rows = read.revisions(&read.segments(&row)?, before, limit)?;
            let mut revisions = Vec::new();
            for found in rows {
                let owner = if found.vault == row.key { None } else { read.vault_by_key(found.vault)? };
                revisions.push(Revision {
                    vault: owner.map_or(row.id, |owner| owner.id),
                    revision: found.revision,
                    before: found.before,
                    after: found.after,
                    totals: found.totals,
                    operation: found.operation,
                    path: found.path,
                    detail: found.detail,
                    actor: found.actor,
                    at: found.at,
                    target: found.target,
                });
            }
            Ok(revisions)
        })
    }
}
