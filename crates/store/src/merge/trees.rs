//! Merges two trees that have a common base.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::conflict::{Conflict, ConflictKind};
use super::files::merge_same_kind;
use super::meta::merge_meta;
use crate::diff::{Delta, compare};
use crate::edit::{Edit, edit};
use crate::error::StoreError;
use crate::id::TreeId;
use crate::node::{Meta, Node, Time};
use crate::object::Directory;
use crate::path::TreePath;
use crate::session::Session;
use crate::tree::{check_depth, directory, lookup};

/// What happens to text files that both sides changed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum TextStyle {
    /// They are a conflict.
    #[default]
    Conflict,
    /// Their lines are merged; lines that both changed are put between markers with these labels.
    Markers {
        /// Our side.
        ours: String,
        /// Their side.
        theirs: String,
    },
}

/// How trees are merged.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// Text files that both sides changed.
    pub text: TextStyle,
    /// Take only their changes at and below this path.
    pub scope: TreePath,
}

/// The three trees of a merge.
#[derive(Clone, Copy, Debug)]
pub struct Sides {
    /// What both sides began with.
    pub base: TreeId,
    /// The tree that takes the changes.
    pub ours: TreeId,
    /// The tree whose changes are taken.
    pub theirs: TreeId,
}

/// The result of a merge.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Merged {
    /// The merged tree.
    pub tree: TreeId,
    /// Where a decision is needed, in the order of their paths.
    pub conflicts: Vec<Conflict>,
}

/// Adds to our tree what they changed since the base.
///
/// A change of one side alone is taken. Where both changed something, mode, owner, attributes, content and time are merged
/// each by itself; the later time wins. A rename is a deletion and a creation. A side that only touched times has not
/// changed anything that prevents a deletion.
pub fn merge(session: &Session, sides: Sides, options: &MergeOptions) -> Result<Merged, StoreError> {
    let theirs = restrict(session, sides, &options.scope)?;
    let mut merging = Merging { session, text: &options.text, edits: BTreeMap::new(), conflicts: Vec::new() };
    let nodes = Triple {
        base: Some(Node::Directory(sides.base)),
        ours: Some(Node::Directory(sides.ours)),
        theirs: Some(Node::Directory(theirs)),
    };
    let mut stack = vec![(TreePath::root(), nodes)];
    while let Some((path, nodes)) = stack.pop() {
        check_depth(&path)?;
        merging.visit(path, nodes, &mut stack)?;
    }
    let Merging { edits, mut conflicts, .. } = merging;
    conflicts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Merged { tree: edit(session, sides.ours, edits)?, conflicts })
}

/// The base with only those of their changes that are in the scope.
fn restrict(session: &Session, sides: Sides, scope: &TreePath) -> Result<TreeId, StoreError> {
    if scope.is_root() {
        return Ok(sides.theirs);
    }
    let find = |tree| match lookup(session, tree, scope) {
        Err(StoreError::NotADirectory { .. }) => Ok(None),
        other => other,
    };
    let change = match (find(sides.base)?, find(sides.theirs)?) {
        (None, None) => return Err(StoreError::NotFound { path: scope.clone() }),
        (_, Some(node)) => Edit::Put(node),
        (Some(_), None) => Edit::Remove,
    };
    edit(session, sides.base, BTreeMap::from([(scope.clone(), change)]))
}

struct Triple {
    base: Option<Node>,
    ours: Option<Node>,
    theirs: Option<Node>,
}

struct Merging<'m> {
    session: &'m Session,
    text: &'m TextStyle,
    /// Changes of our tree.
    edits: BTreeMap<TreePath, Edit>,
    conflicts: Vec<Conflict>,
}

impl Merging<'_> {
    fn visit(
        &mut self,
        path: TreePath,
        nodes: Triple,
        stack: &mut Vec<(TreePath, Triple)>,
    ) -> Result<(), StoreError> {
        let Triple { base, ours, theirs } = &nodes;
        if ours == theirs || theirs == base {
            return Ok(());
        }
        if ours == base {
            self.take(path, theirs.clone());
            return Ok(());
        }
        match (ours, theirs) {
            (Some(Node::Directory(our_tree)), Some(Node::Directory(their_tree))) => {
                let base_tree = match base {
                    Some(Node::Directory(tree)) => Some(*tree),
                    _ => None,
                };
                self.directories(path, base_tree, *our_tree, *their_tree, stack)
            }
            (Some(ours), Some(theirs)) if ours.kind() == theirs.kind() => {
                let merged = merge_same_kind(self.session, base.as_ref(), ours, theirs, self.text)?;
                let Some((node, conflict)) = merged else { return Ok(()) };
                if node != *ours {
                    self.take(path.clone(), Some(node));
                }
                if let Some((kind, has_markers)) = conflict {
                    self.conflict(path, kind, nodes, has_markers);
                }
                Ok(())
            }
            (Some(_), Some(_)) => self.kinds(path, nodes),
            _ => self.deletion(path, nodes),
        }
    }

    fn take(&mut self, path: TreePath, node: Option<Node>) {
        self.edits.insert(path, node.map_or(Edit::Remove, Edit::Put));
    }

    fn conflict(&mut self, path: TreePath, kind: ConflictKind, nodes: Triple, has_markers: bool) {
        let Triple { base, ours, theirs } = nodes;
        self.conflicts.push(Conflict { path, kind, base, ours, theirs, has_markers });
    }

    fn directories(
        &mut self,
        path: TreePath,
        base: Option<TreeId>,
        ours: TreeId,
        theirs: TreeId,
        stack: &mut Vec<(TreePath, Triple)>,
    ) -> Result<(), StoreError> {
        let base_dir = base.map(|tree| directory(self.session, tree)).transpose()?;
        let (our_dir, their_dir) = (directory(self.session, ours)?, directory(self.session, theirs)?);
        let base_meta = base_dir.as_ref().map(|directory| &directory.meta);
        let (meta, is_conflict) = merge_meta(base_meta, &our_dir.meta, &their_dir.meta);
        if meta != our_dir.meta {
            self.edits.insert(path.clone(), Edit::SetMeta(meta));
        }
        if is_conflict {
            let nodes = Triple {
                base: base.map(Node::Directory),
                ours: Some(Node::Directory(ours)),
                theirs: Some(Node::Directory(theirs)),
            };
            self.conflict(path.clone(), ConflictKind::Metadata, nodes, false);
        }
        let mut bases = by_name(base_dir.unwrap_or_default());
        let (mut ours, mut theirs) = (by_name(our_dir), by_name(their_dir));
        let names: BTreeSet<_> = bases.keys().chain(ours.keys()).chain(theirs.keys()).cloned().collect();
        for name in names {
            let nodes =
                Triple { base: bases.remove(&name), ours: ours.remove(&name), theirs: theirs.remove(&name) };
            if nodes.theirs != nodes.base && nodes.theirs != nodes.ours {
                stack.push((path.join(&name), nodes));
            }
        }
        Ok(())
    }

    /// The sides have different kinds of things.
    fn kinds(&mut self, path: TreePath, nodes: Triple) -> Result<(), StoreError> {
        if self.is_touched_only(nodes.base.as_ref(), nodes.ours.as_ref())? {
            self.take(path, nodes.theirs);
        } else if !self.is_touched_only(nodes.base.as_ref(), nodes.theirs.as_ref())? {
            let is_directory = |node: &Option<Node>| matches!(node, Some(Node::Directory(_)));
            let has_directory = is_directory(&nodes.ours) || is_directory(&nodes.theirs);
            let kind = if has_directory { ConflictKind::DirectoryFile } else { ConflictKind::TypeChange };
            self.conflict(path, kind, nodes, false);
        }
        Ok(())
    }

    /// One side deleted it, and the other changed it.
    fn deletion(&mut self, path: TreePath, nodes: Triple) -> Result<(), StoreError> {
        let is_ours_deleted = nodes.ours.is_none();
        let changed = if is_ours_deleted { &nodes.theirs } else { &nodes.ours };
        if self.is_touched_only(nodes.base.as_ref(), changed.as_ref())? {
            if !is_ours_deleted {
                self.take(path, None);
            }
            return Ok(());
        }
        if is_ours_deleted {
            self.take(path.clone(), nodes.theirs.clone());
        }
        self.conflict(path, ConflictKind::DeleteModify, nodes, false);
        Ok(())
    }

    /// Whether only times differ from the base.
    fn is_touched_only(&self, base: Option<&Node>, side: Option<&Node>) -> Result<bool, StoreError> {
        let (Some(base), Some(side)) = (base, side) else { return Ok(base == side) };
        if let (Node::Directory(base), Node::Directory(side)) = (base, side) {
            let deltas = compare(self.session, *base, *side)?;
            return Ok(deltas.iter().all(|delta| match delta {
                Delta::DirectoryMeta { before, after, .. } => timeless(before) == timeless(after),
                Delta::Changed { before, after, .. } => is_equal_but_for_time(before, after),
                Delta::Created { .. } | Delta::Removed { .. } => false,
            }));
        }
        Ok(is_equal_but_for_time(base, side))
    }
}

fn timeless(meta: &Meta) -> Meta {
    Meta { mtime: Time::default(), ..*meta }
}

fn is_equal_but_for_time(a: &Node, b: &Node) -> bool {
    match (a, b) {
        (Node::File(a), Node::File(b)) => {
            (timeless(&a.meta), a.size, a.content) == (timeless(&b.meta), b.size, b.content)
        }
        (Node::Symlink { meta: a, target: at }, Node::Symlink { meta: b, target: bt }) => {
            timeless(a) == timeless(b) && at == bt
        }
        (Node::Fifo { meta: a }, Node::Fifo { meta: b }) => timeless(a) == timeless(b),
        _ => a == b,
    }
}

fn by_name(directory: Directory) -> HashMap<Box<[u8]>, Node> {
    directory.entries.into_iter().map(|entry| (entry.name, entry.node)).collect()
}
