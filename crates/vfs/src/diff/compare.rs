//! Compares any two of a state of a vault and a directory of the host.

use std::path::PathBuf;

use agentiso_store::{ChangeOptions, Changes, ImportOptions, Root, TreePath, changes, import_directory};

use super::lines::{FileDiff, diff_lines};
use crate::files::View;
use crate::state::StateRef;
use crate::{Vaults, VfsError};

/// Largest file that is compared line by line.
const MAX_FILE: usize = 16 << 20;

/// Something with files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Endpoint {
    /// A state of a vault.
    Vault {
        /// Name or id.
        vault: String,
        /// The state.
        state: StateRef,
    },
    /// A directory of the host as it is now.
    Host(PathBuf),
}

impl Endpoint {
    /// The present state of a vault.
    pub fn now(vault: &str) -> Self {
        Self::state(vault, StateRef::Now)
    }

    /// A state of a vault.
    pub fn state(vault: &str, state: StateRef) -> Self {
        Self::Vault { vault: vault.to_owned(), state }
    }

    /// The endpoint for labels and messages.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Vault { vault, .. } => vault.clone(),
            Self::Host(path) => path.display().to_string().escape_debug().to_string(),
        }
    }
}

impl Vaults {
    /// Opens an endpoint for reading. A directory of the host is imported into the store, but not into a vault.
    pub fn tree_of_endpoint(&self, endpoint: &Endpoint) -> Result<View, VfsError> {
        match endpoint {
            Endpoint::Vault { vault, state } => self.view(vault, state),
            Endpoint::Host(path) => {
                let session = self.store.begin()?;
                let imported = import_directory(&session, path, &ImportOptions::default())?;
                let lease = session.commit(&[Root::Tree(imported.tree)])?;
                Ok(View::of_tree(&self.store, imported.tree, lease))
            }
        }
    }

    /// What changed from one endpoint to another, file by file.
    pub fn diff(
        &self,
        before: &Endpoint,
        after: &Endpoint,
        options: &ChangeOptions,
    ) -> Result<Changes, VfsError> {
        let (before, after) = (self.tree_of_endpoint(before)?, self.tree_of_endpoint(after)?);
        Ok(changes(&self.store, before.tree(), after.tree(), options)?)
    }

    /// Compares two files line by line. A file that does not exist in one of the endpoints counts as empty.
    pub fn diff_files(
        &self,
        before: (&Endpoint, &TreePath),
        after: (&Endpoint, &TreePath),
        context: usize,
    ) -> Result<FileDiff, VfsError> {
        let read = |(endpoint, path): (&Endpoint, &TreePath)| -> Result<Option<Vec<u8>>, VfsError> {
            let view = self.tree_of_endpoint(endpoint)?;
            match view.read(path, None, MAX_FILE) {
                Ok(file) => Ok(Some(file.bytes)),
                Err(VfsError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        match (read(before)?, read(after)?) {
            (None, None) => Err(VfsError::NotFound { path: before.1.clone() }),
            (left, right) => Ok(diff_lines(&left.unwrap_or_default(), &right.unwrap_or_default(), context)),
        }
    }
}
