//! Changes of a tree at given paths. Directories without a change are not read.

use std::collections::BTreeMap;

use crate::builder::put_directory;
use crate::error::StoreError;
use crate::id::TreeId;
use crate::node::{Entry, Meta, Node};
use crate::object::Directory;
use crate::path::TreePath;
use crate::session::Session;
use crate::tree::{check_depth, directory};

/// A change at one path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Edit {
    /// The path names this, whatever was there before. A directory is put there with everything in it.
    Put(Node),
    /// The path does not exist; nothing happens if it did not before.
    Remove,
    /// The directory has this metadata.
    SetMeta(Meta),
    /// The path is a directory with at least this metadata, and other edits fill it. Replaces what is not a directory.
    MakeDirectory(Meta),
}

/// Applies changes, each at its own path, and returns the new tree. The directory of every changed path must exist in the
/// tree, or be made by another edit. Edits below a path that another edit puts apply to what was put.
///
/// The session must keep `tree` until it is committed, or its caller must have it recorded.
pub fn edit(session: &Session, tree: TreeId, edits: BTreeMap<TreePath, Edit>) -> Result<TreeId, StoreError> {
    let mut open: BTreeMap<TreePath, Directory> = BTreeMap::new();
    let mut root = tree;
    for (path, edit) in edits {
        check_depth(&path)?;
        let Some((parent, name)) = path.split() else {
            root = edit_root(session, root, edit, &mut open)?;
            continue;
        };
        load(session, root, &parent, &mut open)?;
        let Some(directory) = open.get_mut(&parent) else { continue };
        match edit {
            Edit::Put(node) => put(directory, name, node),
            Edit::Remove => remove(directory, name),
            Edit::SetMeta(meta) => {
                load(session, root, &path, &mut open)?;
                if let Some(directory) = open.get_mut(&path) {
                    directory.meta = meta;
                }
            }
            Edit::MakeDirectory(meta) => {
                if !matches!(find(directory, name), Some(Node::Directory(_))) {
                    // Stored by the end; until then any identity will do, because the open directory comes first.
                    put(directory, name, Node::Directory(tree));
                    open.insert(path, Directory { meta, entries: Vec::new() });
                } else {
                    load(session, root, &path, &mut open)?;
                    if let Some(directory) = open.get_mut(&path) {
                        directory.meta = meta;
                    }
                }
            }
        }
    }
    close(session, root, open)
}

fn edit_root(
    session: &Session,
    root: TreeId,
    edit: Edit,
    open: &mut BTreeMap<TreePath, Directory>,
) -> Result<TreeId, StoreError> {
    match edit {
        Edit::Put(Node::Directory(tree)) => return Ok(tree),
        Edit::SetMeta(meta) | Edit::MakeDirectory(meta) => {
            load(session, root, &TreePath::root(), open)?;
            if let Some(directory) = open.get_mut(&TreePath::root()) {
                directory.meta = meta;
            }
        }
        Edit::Put(_) | Edit::Remove => {
            return Err(StoreError::invalid("the root of a tree", "it must remain a directory"));
        }
    }
    Ok(root)
}

/// Opens a directory and all above it.
fn load(
    session: &Session,
    root: TreeId,
    path: &TreePath,
    open: &mut BTreeMap<TreePath, Directory>,
) -> Result<(), StoreError> {
    if open.contains_key(path) {
        return Ok(());
    }
    if let std::collections::btree_map::Entry::Vacant(slot) = open.entry(TreePath::root()) {
        slot.insert(directory(session, root)?);
    }
    let mut at = TreePath::root();
    for name in path.components() {
        let next = at.join(name);
        if !open.contains_key(&next) {
            let node = open.get(&at).and_then(|directory| find(directory, name));
            match node {
                Some(Node::Directory(tree)) => {
                    let loaded = directory(session, *tree)?;
                    open.insert(next.clone(), loaded);
                }
                Some(_) => return Err(StoreError::NotADirectory { path: next }),
                None => return Err(StoreError::NotFound { path: next }),
            }
        }
        at = next;
    }
    Ok(())
}

/// Stores the open directories, children first.
fn close(
    session: &Session,
    root: TreeId,
    mut open: BTreeMap<TreePath, Directory>,
) -> Result<TreeId, StoreError> {
    let mut result = root;
    // The last path in order has nothing open below it.
    while let Some((path, directory)) = open.pop_last() {
        let tree = put_directory(session, &directory)?;
        match path.split() {
            None => result = tree,
            Some((parent, name)) => {
                if let Some(parent) = open.get_mut(&parent) {
                    put(parent, name, Node::Directory(tree));
                }
            }
        }
    }
    Ok(result)
}

fn find<'d>(directory: &'d Directory, name: &[u8]) -> Option<&'d Node> {
    let at = directory.entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
    directory.entries.get(at).map(|entry| &entry.node)
}

fn put(directory: &mut Directory, name: &[u8], node: Node) {
    match directory.entries.binary_search_by(|entry| (*entry.name).cmp(name)) {
        Ok(at) => {
            if let Some(entry) = directory.entries.get_mut(at) {
                entry.node = node;
            }
        }
        Err(at) => directory.entries.insert(at, Entry { name: name.into(), node }),
    }
}

fn remove(directory: &mut Directory, name: &[u8]) {
    if let Ok(at) = directory.entries.binary_search_by(|entry| (*entry.name).cmp(name)) {
        directory.entries.remove(at);
    }
}
