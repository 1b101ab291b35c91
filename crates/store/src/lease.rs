//! Leases: what a process keeps from garbage collection while it works.
//!
//! A lease is a locked file that lists roots. It ends when it is dropped or when its process dies. A lease that ends while
//! garbage is collected leaves its file behind: the collection may have read the caller's roots before this lease's owner
//! recorded its own, so it must still count. The next collection removes the file.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::StoreError;
use crate::id::{ObjectId, ObjectKind, TreeId};
use crate::locks;
use crate::node::Content;
use crate::steps::Step;
use crate::store::Store;

const MAGIC: &[u8; 8] = b"AiSLEAS1";
const RECORD: usize = 1 + ObjectId::LEN;
/// More roots than any operation has.
const MAX_LEN: u64 = 64 << 20;

/// Something whose whole content is kept.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Root {
    /// A tree with everything in it.
    Tree(TreeId),
    /// The bytes of one file.
    Content(Content),
}

impl Root {
    /// The bytes by which leases and pins name a root.
    pub(crate) fn encode(self) -> [u8; RECORD] {
        let (tag, id) = match self {
            Self::Tree(TreeId(id)) => (1, id),
            Self::Content(Content::Blob(id)) => (2, id),
            Self::Content(Content::Chunked(id)) => (3, id),
            Self::Content(Content::Empty) => (4, ObjectId::from_bytes([0; ObjectId::LEN])),
        };
        let mut bytes = [tag; RECORD];
        bytes[1..].copy_from_slice(id.as_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; RECORD]) -> Option<Self> {
        let (tag, id) = bytes.split_first()?;
        let id = ObjectId::from_bytes(id.try_into().ok()?);
        Some(match tag {
            1 => Self::Tree(TreeId(id)),
            2 => Self::Content(Content::Blob(id)),
            3 => Self::Content(Content::Chunked(id)),
            4 => Self::Content(Content::Empty),
            _ => return None,
        })
    }

    /// Whether the object that names everything else is in the store.
    pub(crate) fn is_published(self, store: &Store) -> Result<bool, StoreError> {
        self.object().map_or(Ok(true), |(_, id)| store.contains(&id))
    }

    fn object(self) -> Option<(ObjectKind, ObjectId)> {
        match self {
            Self::Tree(TreeId(id)) => Some((ObjectKind::Directory, id)),
            Self::Content(Content::Blob(id)) => Some((ObjectKind::Blob, id)),
            Self::Content(Content::Chunked(id)) => Some((ObjectKind::Recipe, id)),
            Self::Content(Content::Empty) => None,
        }
    }
}

/// Keeps roots from garbage collection until it is dropped.
#[derive(Debug)]
pub struct Lease {
    store: Store,
    path: PathBuf,
    file: File,
}

impl Lease {
    pub(crate) fn new(store: &Store) -> Result<Self, StoreError> {
        // A collection that lists leases must not see this one without its lock.
        let _commit = store.commit_lock(false)?;
        let path = store.fresh_path("leases", ".lease")?;
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(StoreError::io("create", &path))?;
        // Waits, because a collection that reads leases takes their locks for a moment.
        let prepared = rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
        let prepared = prepared.map_err(std::io::Error::from);
        if let Err(source) = prepared.and_then(|()| file.write_all(MAGIC)) {
            let _ = fs::remove_file(&path);
            return Err(StoreError::Io { what: "write", path, source });
        }
        Ok(Self { store: store.clone(), path, file })
    }

    /// Adds roots that are about to be published. The caller holds the commit lock.
    pub(crate) fn record(&mut self, roots: &[Root]) -> Result<(), StoreError> {
        self.store.step(Step::RecordRoots)?;
        let bytes: Vec<u8> = roots.iter().flat_map(|root| root.encode()).collect();
        self.file.write_all(&bytes).map_err(StoreError::io("write", &self.path))
    }

    /// Adds a root that is in the store. Fails if it is not.
    pub fn hold(&mut self, root: Root) -> Result<(), StoreError> {
        let _commit = self.store.commit_lock(false)?;
        self.record(&[root])?;
        match root.object() {
            Some((kind, id)) if !self.store.contains(&id)? => Err(StoreError::Missing { kind, id }),
            _ => Ok(()),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Ok(Some(_gc)) = locks::attempt(self.store.root(), locks::GC, false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Store {
    /// Keeps a root that is in the store from garbage collection until the lease is dropped.
    ///
    /// A caller that read the root from its own records reads them again afterwards: if the root is still recorded, the
    /// lease protects all of it.
    pub fn hold(&self, root: Root) -> Result<Lease, StoreError> {
        let mut lease = Lease::new(self)?;
        lease.hold(root)?;
        Ok(lease)
    }
}

/// A lease file as a collection sees it.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) roots: Vec<Root>,
    pub(crate) is_ended: bool,
}

/// Lists all leases. The caller holds the commit lock exclusively.
pub(crate) fn list(store: &Store) -> Result<Vec<Found>, StoreError> {
    let directory = store.root().join("leases");
    let mut found = Vec::new();
    for entry in fs::read_dir(&directory).map_err(StoreError::io("read", &directory))? {
        let path = entry.map_err(StoreError::io("read", &directory))?.path();
        match read(&path) {
            Ok((roots, is_ended)) => found.push(Found { path, roots, is_ended }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(StoreError::Io { what: "read", path, source }),
        }
    }
    Ok(found)
}

fn read(path: &Path) -> std::io::Result<(Vec<Root>, bool)> {
    let file = File::open(path)?;
    let is_ended = locks::is_abandoned(&file);
    let mut bytes = Vec::new();
    (&file).take(MAX_LEN).read_to_end(&mut bytes)?;
    // A lease that ended before it had a header lists nothing. So does a last record that was cut off.
    let (records, _) = bytes.strip_prefix(MAGIC).unwrap_or_default().as_chunks::<RECORD>();
    Ok((records.iter().filter_map(Root::decode).collect(), is_ended))
}
