//! Applies differences to a tree.

use std::collections::BTreeMap;

use super::compare::Delta;
use crate::edit::{Edit, edit};
use crate::error::StoreError;
use crate::id::TreeId;
use crate::node::Node;
use crate::path::TreePath;
use crate::session::Session;
use crate::tree::{directory_meta, lookup};

/// The differences in the other direction.
pub fn invert(deltas: Vec<Delta>) -> Vec<Delta> {
    let invert = |delta| match delta {
        Delta::Created { path, node } => Delta::Removed { path, node },
        Delta::Removed { path, node } => Delta::Created { path, node },
        Delta::Changed { path, before, after } => Delta::Changed { path, before: after, after: before },
        Delta::DirectoryMeta { path, before, after } => {
            Delta::DirectoryMeta { path, before: after, after: before }
        }
    };
    deltas.into_iter().map(invert).collect()
}

/// Applies differences. Each must find what it expects; otherwise nothing is changed and the path is named.
pub fn apply(session: &Session, tree: TreeId, deltas: &[Delta]) -> Result<TreeId, StoreError> {
    let mut edits = BTreeMap::new();
    for delta in deltas {
        let (path, expected, change) = match delta {
            Delta::Created { path, node } => (path, None, Edit::Put(node.clone())),
            Delta::Removed { path, node } => (path, Some(node), Edit::Remove),
            Delta::Changed { path, before, after } => (path, Some(before), Edit::Put(after.clone())),
            Delta::DirectoryMeta { path, before, after } => {
                let Some(Node::Directory(found)) = present(session, tree, path)? else {
                    return Err(StoreError::Mismatch { path: path.clone() });
                };
                if directory_meta(session, found)? != *before {
                    return Err(StoreError::Mismatch { path: path.clone() });
                }
                edits.insert(path.clone(), Edit::SetMeta(*after));
                continue;
            }
        };
        if present(session, tree, path)?.as_ref() != expected {
            return Err(StoreError::Mismatch { path: path.clone() });
        }
        edits.insert(path.clone(), change);
    }
    edit(session, tree, edits)
}

fn present(session: &Session, tree: TreeId, path: &TreePath) -> Result<Option<Node>, StoreError> {
    match lookup(session, tree, path) {
        Err(StoreError::NotADirectory { .. }) => Err(StoreError::Mismatch { path: path.clone() }),
        other => other,
    }
}
