//! Finds the paths that need objects without a good copy.

use std::collections::HashSet;

use crate::content::recipe;
use crate::error::StoreError;
use crate::id::{ObjectId, ObjectKind, TreeId};
use crate::lease::Root;
use crate::node::{Content, Entry, Meta, Node};
use crate::object::{DirectoryObject, Segment};
use crate::path::TreePath;
use crate::store::Store;
use crate::tree::{check_depth, directory_object, page};

/// Most paths that are listed.
const MAX_LISTED: usize = 100_000;

/// A path that cannot be read completely.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Affected {
    /// The name that the caller gave the root.
    pub root: String,
    /// The file, or the directory with everything in it.
    pub path: TreePath,
    /// The kind of the object that is missing or damaged.
    pub kind: ObjectKind,
    /// The object.
    pub object: ObjectId,
}

pub(super) fn find(
    store: &Store,
    good: &HashSet<ObjectId>,
    roots: &[(String, Root)],
) -> Result<Vec<Affected>, StoreError> {
    let mut search = Search { store, good, root: "", found: Vec::new(), sound: HashSet::new() };
    for (name, root) in roots {
        search.root = name;
        match root {
            Root::Content(content) => search.content(&TreePath::root(), *content, None)?,
            Root::Tree(tree) => search.tree(*tree)?,
        }
    }
    Ok(search.found)
}

struct Search<'s> {
    store: &'s Store,
    good: &'s HashSet<ObjectId>,
    root: &'s str,
    found: Vec<Affected>,
    /// Directories that were walked before with nothing affected directly in them. Their subdirectories were, too.
    sound: HashSet<TreeId>,
}

impl Search<'_> {
    fn tree(&mut self, tree: TreeId) -> Result<(), StoreError> {
        let mut stack = vec![(TreePath::root(), tree)];
        let mut visited = Vec::new();
        let before = self.found.len();
        while let Some((path, tree)) = stack.pop() {
            check_depth(&path)?;
            if self.found.len() >= MAX_LISTED || self.sound.contains(&tree) {
                continue;
            }
            visited.push(tree);
            if !self.require(&path, ObjectKind::Directory, tree.0) {
                continue;
            }
            match directory_object(self.store, tree)? {
                DirectoryObject::Whole(directory) => {
                    self.meta(&path, &directory.meta);
                    self.entries(&path, directory.entries, &mut stack)?;
                }
                DirectoryObject::Paged { meta, pages, .. } => {
                    self.meta(&path, &meta);
                    for reference in pages {
                        if self.require(&path, ObjectKind::Page, reference.id) {
                            self.entries(&path, page(self.store, &reference.id)?, &mut stack)?;
                        }
                    }
                }
            }
        }
        if self.found.len() == before {
            self.sound.extend(visited);
        }
        Ok(())
    }

    fn entries(
        &mut self,
        path: &TreePath,
        entries: Vec<Entry>,
        stack: &mut Vec<(TreePath, TreeId)>,
    ) -> Result<(), StoreError> {
        for entry in entries {
            let path = path.join(&entry.name);
            if let Some(meta) = entry.node.meta() {
                self.meta(&path, meta);
            }
            match entry.node {
                Node::Directory(tree) => stack.push((path, tree)),
                Node::File(file) => self.content(&path, file.content, Some(file.size))?,
                Node::Symlink { .. } | Node::Fifo { .. } => {}
            }
        }
        Ok(())
    }

    fn meta(&mut self, path: &TreePath, meta: &Meta) {
        if let Some(id) = meta.attributes {
            self.require(path, ObjectKind::Attributes, id);
        }
    }

    fn content(&mut self, path: &TreePath, content: Content, size: Option<u64>) -> Result<(), StoreError> {
        match content {
            Content::Empty => {}
            Content::Blob(id) => drop(self.require(path, ObjectKind::Blob, id)),
            Content::Chunked(id) => {
                if self.require(path, ObjectKind::Recipe, id) {
                    for segment in recipe(self.store, &id, size)?.segments() {
                        if let Segment::Data(id) = segment {
                            self.require(path, ObjectKind::Blob, *id);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn require(&mut self, path: &TreePath, kind: ObjectKind, object: ObjectId) -> bool {
        let is_good = self.good.contains(&object);
        if !is_good && self.found.len() < MAX_LISTED {
            self.found.push(Affected { root: self.root.to_owned(), path: path.clone(), kind, object });
        }
        is_good
    }
}
