//! What a layer above one tree must contain to show another one. Gives up early if that is much.

use std::collections::{BTreeMap, HashSet};

use agentiso_store::{
    DirectoryObject, Entry, Meta, Node, ObjectId, ObjectKind, Objects, Page, StoreError, TreeId, TreePath,
};

/// How much a layer may contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) entries: usize,
    pub(super) bytes: u64,
}

/// One path of a layer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Item {
    /// A directory of both trees; the layer repeats its metadata.
    Directory(Meta),
    /// A file, link or pipe that replaces what is below it.
    Node(Node),
    /// What is below must not show.
    Whiteout,
}

/// A layer: parents come before what is in them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Layer {
    pub(crate) items: BTreeMap<TreePath, Item>,
    pub(crate) bytes: u64,
}

/// The layer that turns `before` into `after`; nothing if it would exceed the limits.
pub(super) fn difference(
    objects: &dyn Objects,
    before: TreeId,
    after: TreeId,
    limits: Limits,
) -> Result<Option<Layer>, StoreError> {
    let mut layer = Layer::default();
    // The metadata of the uppermost directory counts, so the root is always in the layer.
    let mut stack = vec![(TreePath::root(), Some(before), after)];
    while let Some((path, before, after)) = stack.pop() {
        let new = load(objects, after)?;
        layer.items.insert(path.clone(), Item::Directory(*new.meta()));
        let (olds, news) = match before {
            Some(before) if before == after => (Vec::new(), Vec::new()),
            Some(before) => different_entries(objects, load(objects, before)?, new)?,
            None => (Vec::new(), all_entries(objects, new, &HashSet::new())?),
        };
        let olds: BTreeMap<Box<[u8]>, Node> =
            olds.into_iter().map(|entry| (entry.name, entry.node)).collect();
        let mut kept = HashSet::new();
        for Entry { name, node } in news {
            let path = path.join(&name);
            let old = olds.get(&name);
            if old.is_some() {
                kept.insert(name);
            }
            match (old, node) {
                (Some(old), node) if *old == node => {}
                (Some(Node::Directory(old)), Node::Directory(new)) => stack.push((path, Some(*old), new)),
                (_, Node::Directory(new)) => stack.push((path, None, new)),
                (_, node) => {
                    if let Node::File(file) = &node {
                        layer.bytes = layer.bytes.saturating_add(file.size);
                    }
                    layer.items.insert(path, Item::Node(node));
                }
            }
        }
        for name in olds.into_keys().filter(|name| !kept.contains(name)) {
            layer.items.insert(path.join(&name), Item::Whiteout);
        }
        if layer.items.len() + stack.len() > limits.entries || layer.bytes > limits.bytes {
            return Ok(None);
        }
    }
    Ok(Some(layer))
}

fn load(objects: &dyn Objects, tree: TreeId) -> Result<DirectoryObject, StoreError> {
    DirectoryObject::decode(&objects.object(ObjectKind::Directory, &tree.0)?)
}

fn page_ids(object: &DirectoryObject) -> HashSet<ObjectId> {
    match object {
        DirectoryObject::Whole(_) => HashSet::new(),
        DirectoryObject::Paged { pages, .. } => pages.iter().map(|page| page.id).collect(),
    }
}

/// The entries of both directories, without the pages that both have.
fn different_entries(
    objects: &dyn Objects,
    before: DirectoryObject,
    after: DirectoryObject,
) -> Result<(Vec<Entry>, Vec<Entry>), StoreError> {
    let (old_pages, new_pages) = (page_ids(&before), page_ids(&after));
    Ok((all_entries(objects, before, &new_pages)?, all_entries(objects, after, &old_pages)?))
}

fn all_entries(
    objects: &dyn Objects,
    object: DirectoryObject,
    without: &HashSet<ObjectId>,
) -> Result<Vec<Entry>, StoreError> {
    match object {
        DirectoryObject::Whole(directory) => Ok(directory.entries),
        DirectoryObject::Paged { pages, .. } => {
            let mut entries = Vec::new();
            for page in pages.iter().filter(|page| !without.contains(&page.id)) {
                entries.extend(Page::decode(&objects.object(ObjectKind::Page, &page.id)?)?.0);
            }
            Ok(entries)
        }
    }
}
