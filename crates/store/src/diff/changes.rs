//! Differences as a person or an agent reads them: every file by itself, with renames.

use super::compare::{Delta, compare};
use super::renames;
use crate::error::StoreError;
use crate::id::TreeId;
use crate::node::{Content, Meta, Node, NodeKind};
use crate::path::TreePath;
use crate::store::Objects;
use crate::tree::{Visit, directory, directory_meta, lookup, walk};

/// What happened to a path.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ChangeKind {
    /// It did not exist before.
    Created,
    /// It exists in both trees.
    Modified,
    /// It does not exist any more.
    Deleted,
    /// It has another path.
    Renamed,
}

/// What differs.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Aspect {
    /// It is another kind of thing.
    Kind,
    /// The bytes of a file or the target of a link.
    Content,
    /// Permission bits.
    Mode,
    /// User or group.
    Owner,
    /// Extended attributes.
    Attributes,
    /// Modification time. Only reported on request.
    Time,
    /// Which other names the file has.
    Links,
}

/// One side of a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Info {
    /// What it is.
    pub kind: NodeKind,
    /// Mode, owner, time, attributes.
    pub meta: Meta,
    /// Size of a file, or length of a link's target.
    pub size: u64,
    /// Content of a file.
    pub content: Option<Content>,
}

/// A change of one path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The path; the new one of what was renamed.
    pub path: TreePath,
    /// The former path of what was renamed.
    pub old_path: Option<TreePath>,
    /// Before, unless it was created.
    pub before: Option<Info>,
    /// After, unless it was deleted.
    pub after: Option<Info>,
    /// What differs, if it exists in both trees.
    pub aspects: Vec<Aspect>,
}

/// What to report.
#[derive(Clone, Debug)]
pub struct ChangeOptions {
    /// Only this path and what is below it.
    pub scope: TreePath,
    /// Report differences in times alone, too.
    pub times: bool,
    /// Report renames instead of a deletion and a creation.
    pub renames: bool,
    /// Most changes that are returned.
    pub limit: usize,
}

impl Default for ChangeOptions {
    fn default() -> Self {
        Self { scope: TreePath::root(), times: false, renames: true, limit: usize::MAX }
    }
}

/// The changes between two trees.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// In the order of their paths; no more than the limit.
    pub list: Vec<Change>,
    /// How many there are.
    pub total: u64,
}

/// Compares two trees and reports every changed path.
///
/// A file counts as renamed if a path with exactly its content, not empty, disappeared. If several did, one with the same
/// name is preferred, then the first. A directory counts as renamed, as a whole, if it is identical.
pub fn changes(
    objects: &dyn Objects,
    before: TreeId,
    after: TreeId,
    options: &ChangeOptions,
) -> Result<Changes, StoreError> {
    let deltas = scoped(objects, before, after, &options.scope)?;
    let mut all = Vec::new();
    let mut single = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Changed { path, before, after } => {
                // What was in a directory that became something else is gone, and the other way round.
                for (node, is_created) in [(&before, false), (&after, true)] {
                    if let Node::Directory(tree) = node {
                        let entries = directory(objects, *tree)?.entries;
                        all.extend(
                            entries.into_iter().map(|entry| (path.join(&entry.name), entry.node, is_created)),
                        );
                    }
                }
                let (before, after) = (info(objects, &before)?, info(objects, &after)?);
                single.push(Side::both(path, before, after));
            }
            Delta::DirectoryMeta { path, before, after } => {
                let kind = NodeKind::Directory;
                let info = |meta| Info { kind, meta, size: 0, content: None };
                single.push(Side::both(path, (info(before), None), (info(after), None)));
            }
            Delta::Created { path, node } => all.push((path, node, true)),
            Delta::Removed { path, node } => all.push((path, node, false)),
        }
    }
    let mut list = Vec::new();
    let (created, removed): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, _, is_created)| *is_created);
    let strip =
        |side: Vec<(TreePath, Node, bool)>| side.into_iter().map(|(path, node, _)| (path, node)).collect();
    renames::settle(objects, strip(removed), strip(created), options.renames, &mut list)?;
    for side in single {
        let aspects = aspects(&side.before, &side.after, options.times);
        if !aspects.is_empty() {
            list.push(Change {
                kind: ChangeKind::Modified,
                path: side.path,
                old_path: None,
                before: Some(side.before.0),
                after: Some(side.after.0),
                aspects,
            });
        }
    }
    list.sort_by(|a, b| a.path.cmp(&b.path));
    let total = list.len() as u64;
    list.truncate(options.limit);
    Ok(Changes { list, total })
}

/// The differences at and below a path, with whole paths.
fn scoped(
    objects: &dyn Objects,
    before: TreeId,
    after: TreeId,
    scope: &TreePath,
) -> Result<Vec<Delta>, StoreError> {
    if scope.is_root() {
        return compare(objects, before, after);
    }
    let find = |tree| match lookup(objects, tree, scope) {
        Err(StoreError::NotADirectory { .. }) => Ok(None),
        other => other,
    };
    let path = scope.clone();
    Ok(match (find(before)?, find(after)?) {
        (None, None) => return Err(StoreError::NotFound { path }),
        (None, Some(node)) => vec![Delta::Created { path, node }],
        (Some(node), None) => vec![Delta::Removed { path, node }],
        (Some(Node::Directory(before)), Some(Node::Directory(after))) => {
            let mut deltas = compare(objects, before, after)?;
            for delta in &mut deltas {
                match delta {
                    Delta::Created { path, .. }
                    | Delta::Removed { path, .. }
                    | Delta::Changed { path, .. }
                    | Delta::DirectoryMeta { path, .. } => *path = path.below(scope),
                }
            }
            deltas
        }
        (Some(before), Some(after)) if before == after => Vec::new(),
        (Some(before), Some(after)) => vec![Delta::Changed { path, before, after }],
    })
}

/// What is known about a node, with the target of a link.
pub(super) type Known = (Info, Option<Node>);

struct Side {
    path: TreePath,
    before: Known,
    after: Known,
}

impl Side {
    fn both(path: TreePath, before: Known, after: Known) -> Self {
        Self { path, before, after }
    }
}

pub(super) fn info(objects: &dyn Objects, node: &Node) -> Result<Known, StoreError> {
    let (meta, size, content) = match node {
        Node::Directory(tree) => (directory_meta(objects, *tree)?, 0, None),
        Node::File(file) => (file.meta, file.size, Some(file.content)),
        Node::Symlink { meta, target } => (*meta, target.len() as u64, None),
        Node::Fifo { meta } => (*meta, 0, None),
    };
    Ok((Info { kind: node.kind(), meta, size, content }, Some(node.clone())))
}

pub(super) fn aspects(before: &Known, after: &Known, with_times: bool) -> Vec<Aspect> {
    let mut aspects = Vec::new();
    let ((a, a_node), (b, b_node)) = (before, after);
    let mut add = |differs: bool, aspect| {
        if differs {
            aspects.push(aspect);
        }
    };
    add(a.kind != b.kind, Aspect::Kind);
    let targets = match (a_node, b_node) {
        (Some(Node::Symlink { target: a, .. }), Some(Node::Symlink { target: b, .. })) => a != b,
        _ => false,
    };
    add(a.content != b.content && a.kind == b.kind || targets, Aspect::Content);
    add(a.meta.mode != b.meta.mode, Aspect::Mode);
    add((a.meta.uid, a.meta.gid) != (b.meta.uid, b.meta.gid), Aspect::Owner);
    add(a.meta.attributes != b.meta.attributes, Aspect::Attributes);
    add(with_times && a.meta.mtime != b.meta.mtime, Aspect::Time);
    let links = match (a_node, b_node) {
        (Some(Node::File(a)), Some(Node::File(b))) => a.link != b.link,
        _ => false,
    };
    add(links, Aspect::Links);
    aspects
}

/// Calls `each` with a node and everything in it.
pub(super) fn expand(
    objects: &dyn Objects,
    path: &TreePath,
    node: &Node,
    mut each: impl FnMut(TreePath, Known),
) -> Result<(), StoreError> {
    let Node::Directory(tree) = node else {
        each(path.clone(), info(objects, node)?);
        return Ok(());
    };
    walk(objects, *tree, |below, visit| {
        let known = match visit {
            Visit::Directory { tree, meta } => {
                let info = Info { kind: NodeKind::Directory, meta: *meta, size: 0, content: None };
                (info, Some(Node::Directory(tree)))
            }
            Visit::Other(node) => info(objects, node)?,
        };
        each(below.below(path), known);
        Ok(())
    })
}
