//! The smallest list of differences.

use std::collections::HashSet;

use crate::error::StoreError;
use crate::id::{ObjectId, TreeId};
use crate::node::{Entry, Meta, Node};
use crate::object::DirectoryObject;
use crate::path::TreePath;
use crate::store::Objects;
use crate::tree::{check_depth, directory_object, page};

/// A difference between two trees. A created or removed directory stands for everything in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Delta {
    /// Only the second tree has it.
    Created {
        /// Where.
        path: TreePath,
        /// What.
        node: Node,
    },
    /// Only the first tree has it.
    Removed {
        /// Where.
        path: TreePath,
        /// What.
        node: Node,
    },
    /// Both have it, and it differs. They are not both directories.
    Changed {
        /// Where.
        path: TreePath,
        /// In the first tree.
        before: Node,
        /// In the second tree.
        after: Node,
    },
    /// Both have the directory, and its own metadata differs.
    DirectoryMeta {
        /// Where.
        path: TreePath,
        /// In the first tree.
        before: Meta,
        /// In the second tree.
        after: Meta,
    },
}

impl Delta {
    /// The path that differs.
    pub fn path(&self) -> &TreePath {
        match self {
            Self::Created { path, .. }
            | Self::Removed { path, .. }
            | Self::Changed { path, .. }
            | Self::DirectoryMeta { path, .. } => path,
        }
    }
}

/// Compares two trees; the differences are in the order of their paths.
pub fn compare(objects: &dyn Objects, before: TreeId, after: TreeId) -> Result<Vec<Delta>, StoreError> {
    let mut deltas = Vec::new();
    let mut stack = vec![(TreePath::root(), before, after)];
    while let Some((path, before, after)) = stack.pop() {
        if before == after {
            continue;
        }
        check_depth(&path)?;
        let (before, after) = (directory_object(objects, before)?, directory_object(objects, after)?);
        if before.meta() != after.meta() {
            let (before, after) = (*before.meta(), *after.meta());
            deltas.push(Delta::DirectoryMeta { path: path.clone(), before, after });
        }
        let (olds, news) = different_entries(objects, before, after)?;
        pair(&path, olds, news, &mut deltas, &mut stack);
    }
    deltas.sort_by(|a, b| a.path().cmp(b.path()));
    Ok(deltas)
}

/// The entries of both directories, without the pages that both have.
fn different_entries(
    objects: &dyn Objects,
    before: DirectoryObject,
    after: DirectoryObject,
) -> Result<(Vec<Entry>, Vec<Entry>), StoreError> {
    let ids = |object: &DirectoryObject| -> HashSet<ObjectId> {
        match object {
            DirectoryObject::Whole(_) => HashSet::new(),
            DirectoryObject::Paged { pages, .. } => pages.iter().map(|page| page.id).collect(),
        }
    };
    let (before_ids, after_ids) = (ids(&before), ids(&after));
    let entries = |object: DirectoryObject, others: &HashSet<ObjectId>| match object {
        DirectoryObject::Whole(directory) => Ok(directory.entries),
        DirectoryObject::Paged { pages, .. } => {
            let mut entries = Vec::new();
            for reference in pages.iter().filter(|page| !others.contains(&page.id)) {
                entries.extend(page(objects, &reference.id)?);
            }
            Ok::<_, StoreError>(entries)
        }
    };
    Ok((entries(before, &after_ids)?, entries(after, &before_ids)?))
}

fn pair(
    path: &TreePath,
    olds: Vec<Entry>,
    news: Vec<Entry>,
    deltas: &mut Vec<Delta>,
    stack: &mut Vec<(TreePath, TreeId, TreeId)>,
) {
    let (mut olds, mut news) = (olds.into_iter().peekable(), news.into_iter().peekable());
    loop {
        let order = match (olds.peek(), news.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(old), Some(new)) => old.name.cmp(&new.name),
        };
        let old = if order.is_le() { olds.next() } else { None };
        let new = if order.is_ge() { news.next() } else { None };
        match (old, new) {
            (Some(old), None) => deltas.push(Delta::Removed { path: path.join(&old.name), node: old.node }),
            (None, Some(new)) => deltas.push(Delta::Created { path: path.join(&new.name), node: new.node }),
            (Some(old), Some(new)) if old.node != new.node => {
                let path = path.join(&new.name);
                match (old.node, new.node) {
                    (Node::Directory(before), Node::Directory(after)) => stack.push((path, before, after)),
                    (before, after) => deltas.push(Delta::Changed { path, before, after }),
                }
            }
            _ => {}
        }
    }
}
