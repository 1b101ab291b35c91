//! Puts something into a tree.

use std::collections::BTreeMap;

use agentiso_store::{Edit, Node, Session, TreeId, TreePath, directory, edit};

use super::import::ImportMode;
use crate::VfsError;
use crate::checkpoint::find;
use crate::vault::fresh_meta;

/// A tree that has a node at a path. Directories above it are made.
pub(super) fn graft(
    session: &Session,
    tree: TreeId,
    at: &TreePath,
    node: &Node,
    mode: ImportMode,
) -> Result<TreeId, VfsError> {
    let present = find(session, tree, at)?;
    let mut edits = BTreeMap::new();
    match (&present, mode) {
        (Some(Node::Directory(there)), ImportMode::Merge) => {
            let Node::Directory(new) = node else { return Err(VfsError::IsADirectory { path: at.clone() }) };
            merge_into(session, at, *there, *new, &mut edits)?;
        }
        (Some(Node::Directory(there)), ImportMode::New)
            if at.is_root() && directory(session, *there)?.entries.is_empty() =>
        {
            put(at, node, &mut edits)?;
        }
        (Some(_), ImportMode::New) => return Err(VfsError::Exists { path: at.clone() }),
        _ => put(at, node, &mut edits)?,
    }
    let mut above = at.split().map(|(parent, _)| parent);
    while let Some(parent) = above.filter(|parent| !parent.is_root()) {
        match find(session, tree, &parent)? {
            Some(Node::Directory(_)) => break,
            Some(_) => return Err(VfsError::NotADirectory { path: parent }),
            None => drop(edits.insert(parent.clone(), Edit::MakeDirectory(fresh_meta(0o755)))),
        }
        above = parent.split().map(|(parent, _)| parent);
    }
    Ok(edit(session, tree, edits)?)
}

fn put(at: &TreePath, node: &Node, edits: &mut BTreeMap<TreePath, Edit>) -> Result<(), VfsError> {
    if at.is_root() && !matches!(node, Node::Directory(_)) {
        return Err(VfsError::IsADirectory { path: at.clone() });
    }
    edits.insert(at.clone(), Edit::Put(node.clone()));
    Ok(())
}

/// Everything of both directories; of two things with one name, the new one.
fn merge_into(
    session: &Session,
    at: &TreePath,
    there: TreeId,
    new: TreeId,
    edits: &mut BTreeMap<TreePath, Edit>,
) -> Result<(), VfsError> {
    let mut stack = vec![(at.clone(), there, new)];
    while let Some((path, there, new)) = stack.pop() {
        if there == new {
            continue;
        }
        let (there, new) = (directory(session, there)?, directory(session, new)?);
        for entry in new.entries {
            let below = path.join(&entry.name);
            let old = there.entries.binary_search_by(|old| old.name.cmp(&entry.name)).ok();
            let old = old.and_then(|index| there.entries.get(index)).map(|old| &old.node);
            match (old, &entry.node) {
                (Some(Node::Directory(there)), Node::Directory(new)) => stack.push((below, *there, *new)),
                (Some(old), new) if old == new => {}
                _ => drop(edits.insert(below, Edit::Put(entry.node))),
            }
        }
    }
    Ok(())
}
