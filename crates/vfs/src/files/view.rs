//! A state that stays readable, whatever happens to the vault meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agentiso_store::{Lease, Root, Store, StoreError, TreeId, TreePath};

use crate::annotations::Annotations;
use crate::model::Totals;
use crate::places::totals_of_tree;
use crate::records::Resolved;
use crate::state::StateRef;
use crate::{Vaults, VfsError};

/// How often a state is read again because it was replaced, and its tree collected, in between.
const ATTEMPTS: usize = 100;

/// An immutable state. Garbage collection keeps it while this exists.
#[derive(Debug)]
pub struct View {
    pub(super) store: Store,
    tree: TreeId,
    pub(super) annotations: Arc<Annotations>,
    /// Key of the vault, and the last change.
    origin: Option<(i64, u64)>,
    totals: Option<Totals>,
    #[expect(dead_code, reason = "keeps the tree")]
    lease: Lease,
}

impl Vaults {
    /// Opens a state of a vault for reading.
    pub fn view(&self, vault: &str, state: &StateRef) -> Result<View, VfsError> {
        let resolve = || {
            self.records.read(|read| {
                let row = read.vault(vault)?;
                let found = read.resolve(&row, state)?;
                Ok((found, read.annotations(found.annotations)?))
            })
        };
        let (mut found, mut annotations) = resolve()?;
        for _ in 0..ATTEMPTS {
            let held = self.store.hold(Root::Tree(found.tree));
            // A tree that is still recorded after it is held is complete, and stays so.
            let (again, annotations_now) = resolve()?;
            if again.tree == found.tree {
                let lease = held.map_err(|error| lost(vault, state, error))?;
                return Ok(View::new(&self.store, found, annotations, lease));
            }
            (found, annotations) = (again, annotations_now);
        }
        Err(VfsError::Contended { name: vault.to_owned(), attempts: ATTEMPTS })
    }
}

fn lost(vault: &str, state: &StateRef, source: StoreError) -> VfsError {
    if !source.is_damage() {
        return source.into();
    }
    let what = match state {
        StateRef::Now => format!("the vault {vault:?}"),
        StateRef::Checkpoint(name) => format!("the checkpoint {name:?} of the vault {vault:?}"),
        StateRef::Revision(number) => format!("revision {number} of the vault {vault:?}"),
        StateRef::Tree(tree) => format!("the tree {tree}"),
    };
    VfsError::LostTree { what, source }
}

impl View {
    fn new(store: &Store, found: Resolved, annotations: Arc<Annotations>, lease: Lease) -> Self {
        Self {
            store: store.clone(),
            tree: found.tree,
            annotations,
            origin: Some((found.vault, found.revision)),
            totals: found.totals,
            lease,
        }
    }

    /// A tree that belongs to no vault.
    pub(crate) fn of_tree(store: &Store, tree: TreeId, lease: Lease) -> Self {
        let annotations = Arc::default();
        Self { store: store.clone(), tree, annotations, origin: None, totals: None, lease }
    }

    /// The tree.
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// The store that has it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Tags and metadata of all paths.
    pub fn annotations(&self) -> &Annotations {
        &self.annotations
    }

    /// The last change that the state has; nothing if it is not a state of a vault.
    pub fn revision(&self) -> Option<u64> {
        self.origin.map(|(_, revision)| revision)
    }

    pub(crate) fn shared_annotations(&self) -> Arc<Annotations> {
        Arc::clone(&self.annotations)
    }

    pub(crate) fn origin(&self) -> Option<(i64, u64)> {
        self.origin
    }

    pub(crate) fn known_totals(&self) -> Option<Totals> {
        self.totals
    }

    /// How much the tree has. Counted unless it is known.
    pub fn totals(&self) -> Result<Totals, VfsError> {
        self.totals.map_or_else(|| totals_of_tree(&self.store, self.tree), Ok)
    }

    /// The tags of a path.
    pub fn tags(&self, path: &TreePath) -> BTreeSet<String> {
        self.annotations.get(path).map(|annotation| annotation.tags.clone()).unwrap_or_default()
    }

    /// All tags, with the number of paths that have each.
    pub fn all_tags(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for tag in self.annotations.iter().flat_map(|(_, annotation)| &annotation.tags) {
            *counts.entry(tag.clone()).or_insert(0) += 1;
        }
        counts
    }

    /// The metadata of a path.
    pub fn metadata(&self, path: &TreePath) -> BTreeMap<String, String> {
        self.annotations.get(path).map(|annotation| annotation.metadata.clone()).unwrap_or_default()
    }
}
