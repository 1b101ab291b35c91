//! Finds what is reachable.

use std::collections::HashSet;

use crate::content::recipe;
use crate::error::StoreError;
use crate::id::{ObjectId, TreeId};
use crate::lease::Root;
use crate::node::{Content, Entry, Meta, Node};
use crate::object::{DirectoryObject, Segment};
use crate::store::Objects;
use crate::tree::{directory_object, page};

/// The objects that are reachable from the roots so far.
#[derive(Debug, Default)]
pub(crate) struct Live {
    ids: HashSet<ObjectId>,
    /// What the present root has added.
    added: Vec<ObjectId>,
}

impl Live {
    pub(crate) fn contains(&self, id: &ObjectId) -> bool {
        self.ids.contains(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    fn add(&mut self, id: ObjectId) -> bool {
        let is_new = self.ids.insert(id);
        if is_new {
            self.added.push(id);
        }
        is_new
    }

    /// Adds everything that is reachable from a root. A tree that cannot be read is an error: what it names is unknown.
    /// Then nothing is added, so that the root can be marked again when it can be read.
    pub(crate) fn mark(&mut self, objects: &dyn Objects, root: Root) -> Result<(), StoreError> {
        self.added.clear();
        let result = self.reach(objects, root);
        if result.is_err() {
            for id in self.added.drain(..) {
                self.ids.remove(&id);
            }
        }
        result
    }

    fn reach(&mut self, objects: &dyn Objects, root: Root) -> Result<(), StoreError> {
        match root {
            Root::Content(content) => self.content(objects, content, None),
            Root::Tree(tree) => {
                let mut stack = vec![tree];
                while let Some(tree) = stack.pop() {
                    if self.add(tree.0) {
                        self.directory(objects, tree, &mut stack)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn directory(
        &mut self,
        objects: &dyn Objects,
        tree: TreeId,
        stack: &mut Vec<TreeId>,
    ) -> Result<(), StoreError> {
        match directory_object(objects, tree)? {
            DirectoryObject::Whole(directory) => {
                self.meta(&directory.meta);
                self.entries(objects, directory.entries, stack)
            }
            DirectoryObject::Paged { meta, pages, .. } => {
                self.meta(&meta);
                for reference in pages {
                    if self.add(reference.id) {
                        self.entries(objects, page(objects, &reference.id)?, stack)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn entries(
        &mut self,
        objects: &dyn Objects,
        entries: Vec<Entry>,
        stack: &mut Vec<TreeId>,
    ) -> Result<(), StoreError> {
        for entry in entries {
            if let Some(meta) = entry.node.meta() {
                self.meta(meta);
            }
            match entry.node {
                Node::Directory(tree) => stack.push(tree),
                Node::File(file) => self.content(objects, file.content, Some(file.size))?,
                Node::Symlink { .. } | Node::Fifo { .. } => {}
            }
        }
        Ok(())
    }

    fn meta(&mut self, meta: &Meta) {
        if let Some(id) = meta.attributes {
            self.add(id);
        }
    }

    fn content(
        &mut self,
        objects: &dyn Objects,
        content: Content,
        size: Option<u64>,
    ) -> Result<(), StoreError> {
        match content {
            Content::Empty => {}
            Content::Blob(id) => drop(self.add(id)),
            Content::Chunked(id) => {
                if self.add(id) {
                    for segment in recipe(objects, &id, size)?.segments() {
                        if let Segment::Data(id) = segment {
                            self.add(*id);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
