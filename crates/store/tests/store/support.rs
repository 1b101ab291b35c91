//! Stores, trees and small helpers for all tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use agentiso_store::{
    Edit, File, ImportOptions, Imported, Lease, Meta, Node, Options, Root, Session, Store, StoreError, Time,
    TreeId, TreePath, edit, import_directory, store_bytes,
};

/// A store in a directory of its own, with room for other files beside it.
pub struct Place {
    pub dir: tempfile::TempDir,
    pub store: Store,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_create(&dir.path().join("store"), Options::default()).unwrap();
        Self { dir, store }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The same store as another process would open it.
    pub fn reopened(&self) -> Store {
        Store::open(self.store.root(), Options::default()).unwrap()
    }

    pub fn import(&self, name: &str) -> (Imported, Lease) {
        self.import_with(name, &ImportOptions::default())
    }

    pub fn import_with(&self, name: &str, options: &ImportOptions<'_>) -> (Imported, Lease) {
        let session = self.store.begin().unwrap();
        let imported = import_directory(&session, &self.path(name), options).unwrap();
        let lease = session.commit(&[Root::Tree(imported.tree)]).unwrap();
        (imported, lease)
    }

    /// Commits a tree with these text files.
    pub fn tree(&self, files: &[(&str, &str)]) -> (TreeId, Lease) {
        self.committed(|session| tree(session, files))
    }

    pub fn committed(&self, make: impl FnOnce(&Session) -> TreeId) -> (TreeId, Lease) {
        let session = self.store.begin().unwrap();
        let tree = make(&session);
        let lease = session.commit(&[Root::Tree(tree)]).unwrap();
        (tree, lease)
    }

    pub fn files_below(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.store.root().join(directory)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

pub fn path(text: impl AsRef<[u8]>) -> TreePath {
    TreePath::parse(text).unwrap()
}

pub fn meta(mode: u16, seconds: i64) -> Meta {
    Meta { mode, mtime: Time { seconds, nanos: 5 }, ..Meta::default() }
}

pub fn file(session: &Session, text: &[u8], seconds: i64) -> Node {
    let content = store_bytes(session, text).unwrap();
    Node::File(File { meta: meta(0o644, seconds), size: text.len() as u64, content, link: None })
}

pub fn empty(session: &Session) -> TreeId {
    agentiso_store::Builder::new(meta(0o755, 1)).finish(session).unwrap()
}

/// A tree of text files; directories are made as needed.
pub fn tree(session: &Session, files: &[(&str, &str)]) -> TreeId {
    let mut edits = BTreeMap::new();
    for (name, text) in files {
        let whole = path(name);
        let mut above = whole.split().map(|(parent, _)| parent);
        while let Some(parent) = above.filter(|parent| !parent.is_root()) {
            edits.insert(parent.clone(), Edit::MakeDirectory(meta(0o755, 1)));
            above = parent.split().map(|(parent, _)| parent);
        }
        edits.insert(whole, Edit::Put(file(session, text.as_bytes(), 1)));
    }
    edit(session, empty(session), edits).unwrap()
}

/// Paths and texts of all files of a tree.
pub fn texts(store: &dyn agentiso_store::Objects, tree: TreeId) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    agentiso_store::walk(store, tree, |path, visit| {
        if let agentiso_store::Visit::Other(Node::File(file)) = visit {
            let bytes = agentiso_store::read_content(store, file.content, file.size, 4 << 20)?;
            found.insert(path.to_string(), String::from_utf8_lossy(&bytes).into_owned());
        }
        Ok(())
    })
    .unwrap();
    found
}

pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A directory with `directories` times `files` small files.
pub fn fill(root: &Path, directories: usize, files: usize) {
    for directory in 0..directories {
        for file in 0..files {
            let text = format!("file {file} of directory {directory}\n").repeat(1 + file % 7);
            write(&root.join(format!("dir-{directory}/file-{file}")), text);
        }
    }
}

/// Roots for a collection that cannot fail to read them.
pub fn roots(trees: &[TreeId]) -> impl FnOnce() -> Result<Vec<Root>, StoreError> + use<> {
    let roots = trees.iter().map(|tree| Root::Tree(*tree)).collect();
    move || Ok(roots)
}
