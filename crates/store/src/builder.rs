//! Builds a tree from entries in any order, parents before children.

use std::collections::HashMap;

use crate::error::StoreError;
use crate::id::{ObjectKind, TreeId};
use crate::node::{Entry, Meta, Node};
use crate::object::Directory;
use crate::path::{TreePath, is_valid_name};
use crate::session::Session;

/// A directory of a [`Builder`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct DirectoryIndex(usize);

/// Collects directories and their entries.
#[derive(Debug)]
pub struct Builder {
    directories: Vec<Building>,
}

#[derive(Debug)]
struct Building {
    meta: Meta,
    parent: usize,
    name: Box<[u8]>,
    entries: Vec<Entry>,
}

impl Builder {
    /// Begins with a root.
    pub fn new(meta: Meta) -> Self {
        Self { directories: vec![Building { meta, parent: 0, name: Box::default(), entries: Vec::new() }] }
    }

    /// The root.
    pub fn root(&self) -> DirectoryIndex {
        DirectoryIndex(0)
    }

    /// Adds a directory.
    pub fn add_directory(
        &mut self,
        parent: DirectoryIndex,
        name: &[u8],
        meta: Meta,
    ) -> Result<DirectoryIndex, StoreError> {
        check_name(name)?;
        self.directories.push(Building { meta, parent: parent.0, name: name.into(), entries: Vec::new() });
        Ok(DirectoryIndex(self.directories.len() - 1))
    }

    /// Adds an entry. A directory that is already stored may be added, too.
    pub fn add(&mut self, parent: DirectoryIndex, name: &[u8], node: Node) -> Result<(), StoreError> {
        check_name(name)?;
        if let Some(directory) = self.directories.get_mut(parent.0) {
            directory.entries.push(Entry { name: name.into(), node });
        }
        Ok(())
    }

    /// Stores all directories and returns the tree. Two entries of one name are an error.
    pub fn finish(mut self, session: &Session) -> Result<TreeId, StoreError> {
        // Children come after their parents, so the last has no children that are not stored.
        loop {
            let Some(building) = self.directories.pop() else {
                return Err(StoreError::invalid("the tree", "it has no root"));
            };
            let Building { meta, parent, name, mut entries } = building;
            entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            let tree = put_directory(session, &Directory { meta, entries })?;
            match self.directories.get_mut(parent) {
                Some(directory) => directory.entries.push(Entry { name, node: Node::Directory(tree) }),
                None => return Ok(tree),
            }
        }
    }
}

fn check_name(name: &[u8]) -> Result<(), StoreError> {
    if is_valid_name(name) {
        return Ok(());
    }
    let reason = "a name must have 1 to 255 bytes, without \"/\" and NUL, and must not be \".\" or \"..\"";
    Err(StoreError::invalid(String::from_utf8_lossy(name).escape_debug(), reason))
}

/// Stores a directory. Its entries must be sorted.
pub(crate) fn put_directory(session: &Session, directory: &Directory) -> Result<TreeId, StoreError> {
    let encoded = directory.encode()?;
    for (id, bytes) in &encoded.pages {
        if !session.has(id) {
            session.write(*id, ObjectKind::Page, bytes)?;
        }
    }
    if !session.has(&encoded.id.0) {
        session.write(encoded.id.0, ObjectKind::Directory, &encoded.bytes)?;
    }
    Ok(encoded.id)
}

/// A builder whose entries are named by whole paths, each of which may replace an earlier one.
#[derive(Debug, Default)]
pub(crate) struct PathBuilder {
    root: Meta,
    nodes: HashMap<TreePath, Planned>,
}

#[derive(Clone, Debug)]
pub(crate) enum Planned {
    Directory(Meta),
    Node(Node),
}

impl PathBuilder {
    pub(crate) fn new(root: Meta) -> Self {
        Self { root, nodes: HashMap::new() }
    }

    pub(crate) fn get(&self, path: &TreePath) -> Option<&Planned> {
        self.nodes.get(path)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Sets the metadata of the root.
    pub(crate) fn set_root(&mut self, meta: Meta) {
        self.root = meta;
    }

    /// Adds or replaces something. Parents that are missing become directories with `parent`'s metadata; a parent that is
    /// something else is an error.
    pub(crate) fn insert(
        &mut self,
        path: TreePath,
        planned: Planned,
        parent: Meta,
    ) -> Result<(), StoreError> {
        let mut above = path.split().map(|(directory, _)| directory);
        while let Some(directory) = above.filter(|directory| !directory.is_root()) {
            match self.nodes.get(&directory) {
                Some(Planned::Directory(_)) => break,
                Some(Planned::Node(_)) => return Err(StoreError::NotADirectory { path: directory }),
                None => self.nodes.insert(directory.clone(), Planned::Directory(parent)),
            };
            above = directory.split().map(|(directory, _)| directory);
        }
        let was_directory = matches!(self.nodes.get(&path), Some(Planned::Directory(_)));
        if was_directory && matches!(planned, Planned::Node(_)) {
            return Err(StoreError::invalid(&path, "a directory would be replaced by something else"));
        }
        self.nodes.insert(path, planned);
        Ok(())
    }

    pub(crate) fn finish(self, session: &Session) -> Result<TreeId, StoreError> {
        let mut builder = Builder::new(self.root);
        let mut nodes: Vec<_> = self.nodes.into_iter().collect();
        nodes.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut directories = HashMap::from([(TreePath::root(), builder.root())]);
        for (path, planned) in nodes {
            let Some((parent, name)) = path.split() else { continue };
            let Some(parent) = directories.get(&parent).copied() else { continue };
            match planned {
                Planned::Node(node) => builder.add(parent, name, node)?,
                Planned::Directory(meta) => {
                    let index = builder.add_directory(parent, name, meta)?;
                    directories.insert(path, index);
                }
            }
        }
        builder.finish(session)
    }
}
