//! Where two trees differ, and by how much.

use agentiso_store::{Delta, Node, Objects, TreeId, TreePath, Visit, compare, walk};

use crate::VfsError;
use crate::model::Totals;

/// More places than this are recorded as one: the whole tree.
const MAX_PLACES: usize = 10_000;

/// What happened at a place. Stored, so numbers never change meaning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum PlaceKind {
    Created = 1,
    Removed = 2,
    Changed = 3,
    /// Anything at or below may have changed.
    Many = 4,
    /// Only mode, owner, time, attributes or names of a file changed.
    Metadata = 5,
}

/// The difference of two trees.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Sorted by path. A directory's own metadata is not a place.
    pub(crate) list: Vec<(TreePath, PlaceKind)>,
    /// What disappeared.
    pub(crate) removed: Totals,
    /// What is there instead.
    pub(crate) added: Totals,
    /// The largest file that grew or is new.
    pub(crate) largest: Option<(TreePath, u64)>,
}

impl Places {
    pub(crate) fn between(objects: &dyn Objects, before: TreeId, after: TreeId) -> Result<Self, VfsError> {
        let mut places = Self::default();
        for delta in compare(objects, before, after)? {
            match delta {
                Delta::Created { path, node } => {
                    places.add(objects, &path, &node)?;
                    places.list.push((path, PlaceKind::Created));
                }
                Delta::Removed { path, node } => {
                    add_totals(&mut places.removed, totals_of(objects, &node)?);
                    places.list.push((path, PlaceKind::Removed));
                }
                Delta::Changed { path, before, after } => {
                    places.change(objects, &path, &before, &after)?;
                    let is_same = has_same_content(&before, &after);
                    let kind = if is_same { PlaceKind::Metadata } else { PlaceKind::Changed };
                    places.list.push((path, kind));
                }
                Delta::DirectoryMeta { .. } => {}
            }
        }
        if places.list.len() > MAX_PLACES {
            places.list = vec![(TreePath::root(), PlaceKind::Many)];
        }
        Ok(places)
    }

    fn add(&mut self, objects: &dyn Objects, path: &TreePath, node: &Node) -> Result<(), VfsError> {
        let mut largest = self.largest.take();
        let totals = each_file(objects, path, node, |path, size| {
            if largest.as_ref().is_none_or(|(_, most)| size > *most) {
                largest = Some((path.clone(), size));
            }
        })?;
        self.largest = largest;
        add_totals(&mut self.added, totals);
        Ok(())
    }

    fn change(
        &mut self,
        objects: &dyn Objects,
        path: &TreePath,
        before: &Node,
        after: &Node,
    ) -> Result<(), VfsError> {
        add_totals(&mut self.removed, totals_of(objects, before)?);
        match (before, after) {
            // A file that does not grow is not checked against the limit for one file.
            (Node::File(old), Node::File(new)) if new.size <= old.size => {
                add_totals(&mut self.added, totals_of(objects, after)?);
                Ok(())
            }
            _ => self.add(objects, path, after),
        }
    }

    /// The totals after the change.
    pub(crate) fn apply(&self, before: Totals) -> Totals {
        let step = |value: u64, added: u64, removed: u64| (value + added).saturating_sub(removed);
        Totals {
            files: step(before.files, self.added.files, self.removed.files),
            directories: step(before.directories, self.added.directories, self.removed.directories),
            bytes: step(before.bytes, self.added.bytes, self.removed.bytes),
        }
    }
}

/// Whether two things are the same but for their metadata.
pub(crate) fn has_same_content(before: &Node, after: &Node) -> bool {
    match (before, after) {
        (Node::File(before), Node::File(after)) => before.content == after.content,
        (Node::Symlink { target: before, .. }, Node::Symlink { target: after, .. }) => before == after,
        (Node::Fifo { .. }, Node::Fifo { .. }) => true,
        (Node::Directory(before), Node::Directory(after)) => before == after,
        _ => false,
    }
}

fn add_totals(sum: &mut Totals, more: Totals) {
    sum.files += more.files;
    sum.directories += more.directories;
    sum.bytes += more.bytes;
}

/// How much a tree has, without its root.
pub(crate) fn totals_of_tree(objects: &dyn Objects, tree: TreeId) -> Result<Totals, VfsError> {
    let mut totals = totals_of(objects, &Node::Directory(tree))?;
    totals.directories = totals.directories.saturating_sub(1);
    Ok(totals)
}

/// How much a node and everything in it have.
pub(crate) fn totals_of(objects: &dyn Objects, node: &Node) -> Result<Totals, VfsError> {
    each_file(objects, &TreePath::root(), node, |_, _| {})
}

fn each_file(
    objects: &dyn Objects,
    path: &TreePath,
    node: &Node,
    mut each: impl FnMut(&TreePath, u64),
) -> Result<Totals, VfsError> {
    let mut totals = Totals::default();
    let mut count = |path: &TreePath, node: &Node| {
        totals.files += 1;
        if let Node::File(file) = node {
            totals.bytes += file.size;
            each(path, file.size);
        }
    };
    let Node::Directory(tree) = node else {
        count(path, node);
        return Ok(totals);
    };
    let mut directories = 0;
    walk(objects, *tree, |below, visit| {
        match visit {
            Visit::Directory { .. } => directories += 1,
            Visit::Other(node) => count(&below.below(path), node),
        }
        Ok(())
    })?;
    totals.directories = directories;
    Ok(totals)
}
