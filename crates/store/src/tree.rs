//! Reading trees.

use crate::error::StoreError;
use crate::id::{ObjectKind, TreeId};
use crate::node::{Entry, Meta, Node};
use crate::object::{Directory, DirectoryObject, Page};
use crate::path::TreePath;
use crate::store::Objects;

pub(crate) fn directory_object(objects: &dyn Objects, tree: TreeId) -> Result<DirectoryObject, StoreError> {
    let bytes = objects.object(ObjectKind::Directory, &tree.0)?;
    DirectoryObject::decode(&bytes).map_err(|error| named(error, "directory", &tree.0))
}

pub(crate) fn page(objects: &dyn Objects, id: &crate::ObjectId) -> Result<Vec<Entry>, StoreError> {
    let bytes = objects.object(ObjectKind::Page, id)?;
    Page::decode(&bytes).map(|page| page.0).map_err(|error| named(error, "directory page", id))
}

fn named(error: StoreError, kind: &str, id: &crate::ObjectId) -> StoreError {
    match error {
        StoreError::Damaged { reason, .. } => StoreError::damaged(format!("the {kind} {id}"), reason),
        other => other,
    }
}

/// Reads a directory with all its entries.
pub fn directory(objects: &dyn Objects, tree: TreeId) -> Result<Directory, StoreError> {
    match directory_object(objects, tree)? {
        DirectoryObject::Whole(directory) => Ok(directory),
        DirectoryObject::Paged { meta, count, pages } => {
            let mut entries = Vec::new();
            for reference in &pages {
                entries.extend(page(objects, &reference.id)?);
            }
            if entries.len() as u64 != count || !entries.is_sorted_by(|a, b| a.name < b.name) {
                return Err(StoreError::damaged(format!("the directory {tree}"), "its pages do not fit it"));
            }
            Ok(Directory { meta, entries })
        }
    }
}

/// The metadata of a directory.
pub fn directory_meta(objects: &dyn Objects, tree: TreeId) -> Result<Meta, StoreError> {
    directory_object(objects, tree).map(|object| *object.meta())
}

/// Finds what a path names; nothing if it does not exist. A component that is not a directory is an error.
pub fn lookup(objects: &dyn Objects, tree: TreeId, path: &TreePath) -> Result<Option<Node>, StoreError> {
    let mut node = Node::Directory(tree);
    let mut at = TreePath::root();
    for name in path.components() {
        let Node::Directory(tree) = node else { return Err(StoreError::NotADirectory { path: at }) };
        match entry(objects, tree, name)? {
            Some(found) => node = found,
            None => return Ok(None),
        }
        at = at.join(name);
    }
    Ok(Some(node))
}

/// Finds an entry of a directory; reads one page of a large one.
fn entry(objects: &dyn Objects, tree: TreeId, name: &[u8]) -> Result<Option<Node>, StoreError> {
    let entries = match directory_object(objects, tree)? {
        DirectoryObject::Whole(directory) => directory.entries,
        DirectoryObject::Paged { pages, .. } => {
            let at = pages.partition_point(|page| *page.last < *name);
            match pages.get(at) {
                Some(reference) => page(objects, &reference.id)?,
                None => return Ok(None),
            }
        }
    };
    let found = entries.binary_search_by(|entry| (*entry.name).cmp(name));
    Ok(found.ok().and_then(|at| entries.into_iter().nth(at)).map(|entry| entry.node))
}

/// What a walk meets.
#[derive(Clone, Debug)]
pub enum Visit<'w> {
    /// A directory, before its entries.
    Directory {
        /// Its identity.
        tree: TreeId,
        /// Its metadata.
        meta: &'w Meta,
    },
    /// Anything else.
    Other(&'w Node),
}

/// Visits a tree in the order of its paths. Directories are read one at a time, and depth is bounded by the length of
/// paths.
pub fn walk(
    objects: &dyn Objects,
    tree: TreeId,
    mut visit: impl FnMut(&TreePath, Visit<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut stack = vec![(TreePath::root(), Node::Directory(tree))];
    while let Some((path, node)) = stack.pop() {
        let Node::Directory(tree) = node else {
            visit(&path, Visit::Other(&node))?;
            continue;
        };
        let directory = directory(objects, tree)?;
        visit(&path, Visit::Directory { tree, meta: &directory.meta })?;
        check_depth(&path)?;
        stack.extend(directory.entries.into_iter().rev().map(|entry| (path.join(&entry.name), entry.node)));
    }
    Ok(())
}

/// A crafted tree may nest without end; what came from a file system cannot.
pub(crate) fn check_depth(path: &TreePath) -> Result<(), StoreError> {
    if path.as_bytes().len() > crate::limits::MAX_PATH {
        return Err(StoreError::damaged("a tree", "one of its paths is too long"));
    }
    Ok(())
}
