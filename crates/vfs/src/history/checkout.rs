//! Brings back earlier versions of a file, also of one that was deleted.

use agentiso_store::TreePath;

use super::log::VersionRef;
use crate::checkpoint::take_path;
use crate::commit::{Proposal, with_tree};
use crate::files::View;
use crate::model::{Changed, Note};
use crate::{Vaults, VfsError};

/// A file that is what it was.
#[derive(Clone, Debug)]
pub struct CheckedOut {
    /// The file.
    pub path: TreePath,
    /// The version that it was before; nothing if it did not exist.
    pub from_version: Option<u64>,
    /// The version that was brought back.
    pub to_version: u64,
    /// The number that it has as the newest version.
    pub new_version: u64,
    /// The change of the vault.
    pub changed: Changed,
}

impl Vaults {
    /// Makes a version of a file the newest one.
    pub fn checkout(
        &self,
        vault: &str,
        path: &TreePath,
        version: VersionRef,
    ) -> Result<CheckedOut, VfsError> {
        let view = self.view_of_version(vault, path, version)?;
        let (_, steps) = self.steps_of(vault, path)?;
        let revision = view.revision().unwrap_or_default();
        let missing =
            || VfsError::VersionNotFound { what: path.to_string(), version: format!("revision {revision}") };
        // The newest version that the state can have.
        let step = steps.iter().rev().find(|step| step.revision <= revision).ok_or_else(missing)?;
        let to_version = step.number.ok_or_else(missing)?;
        self.bring_back(vault, path, &view, "checkout", to_version)
    }

    /// Makes the version before the newest one the newest. A file that was deleted gets its last version back.
    pub fn revert(&self, vault: &str, path: &TreePath) -> Result<CheckedOut, VfsError> {
        let (_, steps) = self.steps_of(vault, path)?;
        if steps.is_empty() {
            return Err(VfsError::NotFound { path: path.clone() });
        }
        let is_deleted = steps.last().is_some_and(|step| step.number.is_none());
        let mut versions = steps.iter().rev().filter(|step| !step.is_hidden).filter_map(|step| step.number);
        let wanted = if is_deleted { versions.next() } else { versions.nth(1) };
        let wanted = wanted.ok_or_else(|| VfsError::NothingTo { verb: "revert", vault: vault.to_owned() })?;
        let view = self.view_of_version(vault, path, VersionRef::Number(wanted))?;
        self.bring_back(vault, path, &view, "revert", wanted)
    }

    fn bring_back(
        &self,
        vault: &str,
        path: &TreePath,
        view: &View,
        word: &str,
        to_version: u64,
    ) -> Result<CheckedOut, VfsError> {
        let newest = |vaults: &Self| -> Result<Option<u64>, VfsError> {
            Ok(vaults.steps_of(vault, path)?.1.last().and_then(|step| step.number))
        };
        let from_version = newest(self)?;
        let note = Note::new(word).at(path).detail(format!("{{\"version\":{to_version}}}"));
        let (changed, ()) = self.commit(
            vault,
            &note,
            |session, begun| {
                let tree = take_path(session, begun.state.tree, view.tree(), path)?;
                Ok(Proposal { is_return: true, ..Proposal::new(with_tree(&begun.state, tree)) })
            },
            |_| Ok(()),
        )?;
        let new_version = newest(self)?.unwrap_or(to_version);
        Ok(CheckedOut { path: path.clone(), from_version, to_version, new_version, changed })
    }
}
