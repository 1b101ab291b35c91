//! Compares a layout with its tree.

use agentiso_store::{ChangeOptions, ImportOptions, TreeId, changes, import_directory};

use super::base::Lease;
use super::cache::Layouts;
use super::info::full_name;
use crate::error::MountError;

impl Layouts {
    /// Reads the whole layout of a tree and compares it. A layout that differs is set aside, so that the next use makes it
    /// again, and reported as damaged. Owners are compared only if root made it.
    pub fn verify(&self, tree: TreeId) -> Result<(), MountError> {
        let path = self.directory().join(full_name(tree));
        let Some(lease) = Lease::take(&path)? else {
            return Err(MountError::NotFound { what: format!("a layout of the tree {tree}") });
        };
        let session = self.0.store.begin()?;
        let found = import_directory(&session, &lease.tree(), &ImportOptions::default())?;
        let options = ChangeOptions { times: true, renames: false, ..ChangeOptions::default() };
        let mut differences = changes(&session, tree, found.tree, &options)?.list;
        if !rustix::process::geteuid().is_root() {
            for change in &mut differences {
                change.aspects.retain(|aspect| *aspect != agentiso_store::Aspect::Owner);
            }
            differences.retain(|change| {
                change.kind != agentiso_store::ChangeKind::Modified || !change.aspects.is_empty()
            });
        }
        let Some(first) = differences.first() else { return Ok(()) };
        let reason = format!("{} differs from the tree; the layout will be made again", first.path);
        drop(lease);
        super::evict::set_aside(&path)?;
        Err(MountError::damaged(&path, reason))
    }
}
