//! Vaults and small helpers for all tests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentiso_core::{Code, Explain};
use agentiso_store::{Node, Visit, read_content, walk};
use agentiso_vfs::{
    Changed, CreateVault, FileOp, ForkVault, Options, Root, StateRef, TreeId, TreePath, VaultInfo, Vaults,
    VfsError,
};

/// Vaults in a directory of their own, with room for other files beside it.
pub struct Place {
    pub dir: tempfile::TempDir,
    pub vaults: Vaults,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let vaults = open(&dir.path().join("home"));
        Self { dir, vaults }
    }

    /// With an empty vault "v".
    pub fn with_vault() -> Self {
        let place = Self::new();
        place.create("v");
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The same vaults as another process would open them.
    pub fn reopened(&self) -> Vaults {
        open(&self.path("home"))
    }

    pub fn create(&self, name: &str) -> VaultInfo {
        self.vaults.create(&CreateVault::new(name.parse().unwrap())).unwrap()
    }

    pub fn fork(&self, source: &str, name: &str) -> VaultInfo {
        self.vaults.fork(&ForkVault::new(source, name.parse().unwrap())).unwrap().remove(0)
    }

    pub fn write(&self, vault: &str, at: &str, text: &str) -> Changed {
        let operations = [parents(at), FileOp::write(&path(at), text)];
        self.vaults.change(vault, &operations).unwrap()
    }

    pub fn remove(&self, vault: &str, at: &str) -> Changed {
        let operation = FileOp::Remove { path: path(at), recursive: true, force: false };
        self.vaults.change(vault, &[operation]).unwrap()
    }

    pub fn read(&self, vault: &str, at: &str) -> String {
        read(&self.vaults, vault, at)
    }

    pub fn texts(&self, vault: &str) -> BTreeMap<String, String> {
        self.texts_of(vault, &StateRef::Now)
    }

    pub fn texts_of(&self, vault: &str, state: &StateRef) -> BTreeMap<String, String> {
        texts(&self.vaults, self.vaults.view(vault, state).unwrap().tree())
    }
}

pub fn open(directory: &std::path::Path) -> Vaults {
    Vaults::open(directory, Options { actor: "test".to_owned(), ..Options::default() }).unwrap()
}

/// Makes the directories above a path.
pub fn parents(at: &str) -> FileOp {
    let above = path(at).split().map_or_else(TreePath::root, |(parent, _)| parent);
    FileOp::MakeDirectory { path: above, parents: true, mode: None }
}

pub fn path(text: impl AsRef<[u8]>) -> TreePath {
    TreePath::parse(text).unwrap()
}

pub fn read(vaults: &Vaults, vault: &str, at: &str) -> String {
    let view = vaults.view(vault, &StateRef::Now).unwrap();
    String::from_utf8(view.read(&path(at), None, 1 << 20).unwrap().bytes).unwrap()
}

/// Paths and texts of all files of a tree.
pub fn texts(vaults: &Vaults, tree: TreeId) -> BTreeMap<String, String> {
    let store = vaults.store();
    let mut found = BTreeMap::new();
    walk(store, tree, |path, visit| {
        if let Visit::Other(Node::File(file)) = visit {
            let bytes = read_content(store, file.content, file.size, 4 << 20)?;
            found.insert(path.to_string(), String::from_utf8_lossy(&bytes).into_owned());
        }
        Ok(())
    })
    .unwrap();
    found
}

pub fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

pub fn code<T: std::fmt::Debug>(result: Result<T, VfsError>) -> Code {
    result.unwrap_err().code()
}

pub fn no_more() -> Result<Vec<Root>, VfsError> {
    Ok(Vec::new())
}
