//! A state that operations are applied to, one after the other. Edits are collected, and applied together when a later
//! operation looks at what they changed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use agentiso_store::{Edit, Node, Session, TreeId, TreePath, edit, lookup};

use crate::VfsError;
use crate::annotations::Annotations;
use crate::files::Resolver;
use crate::state::State;

pub(super) struct Working<'s> {
    pub(super) session: &'s Session,
    pub(super) annotations: Annotations,
    pending: RefCell<Pending>,
}

struct Pending {
    tree: TreeId,
    edits: BTreeMap<TreePath, Edit>,
}

impl<'s> Working<'s> {
    pub(super) fn new(session: &'s Session, state: &State) -> Self {
        let pending = RefCell::new(Pending { tree: state.tree, edits: BTreeMap::new() });
        Self { session, annotations: (*state.annotations).clone(), pending }
    }

    pub(super) fn finish(self) -> Result<State, VfsError> {
        let tree = self.pending.borrow_mut().flush(self.session)?;
        Ok(crate::commit::with_annotations(tree, self.annotations))
    }

    /// Puts something at a path, whose directory exists.
    pub(super) fn put(&self, path: &TreePath, node: Node) -> Result<(), VfsError> {
        self.edit(path, Edit::Put(node))
    }

    pub(super) fn remove(&self, path: &TreePath) -> Result<(), VfsError> {
        self.edit(path, Edit::Remove)
    }

    pub(super) fn edit(&self, path: &TreePath, change: Edit) -> Result<(), VfsError> {
        let mut pending = self.pending.borrow_mut();
        if pending.is_touched(path) {
            pending.flush(self.session)?;
        }
        pending.edits.insert(path.clone(), change);
        Ok(())
    }
}

impl Resolver for Working<'_> {
    fn node(&self, path: &TreePath) -> Result<Option<Node>, VfsError> {
        let mut pending = self.pending.borrow_mut();
        if pending.is_touched(path) {
            pending.flush(self.session)?;
        }
        Ok(lookup(self.session, pending.tree, path)?)
    }
}

impl Pending {
    fn flush(&mut self, session: &Session) -> Result<TreeId, VfsError> {
        if !self.edits.is_empty() {
            self.tree = edit(session, self.tree, std::mem::take(&mut self.edits))?;
        }
        Ok(self.tree)
    }

    /// Whether an edit is at, above or below a path.
    fn is_touched(&self, path: &TreePath) -> bool {
        let mut above = Some(path.clone());
        while let Some(at) = above {
            if self.edits.contains_key(&at) {
                return true;
            }
            above = at.split().map(|(parent, _)| parent);
        }
        // Paths are ordered as a walk visits them, so what is below comes right after.
        self.edits.range(path..).next().is_some_and(|(next, _)| next.is_within(path))
    }
}
