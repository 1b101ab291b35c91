//! A store: its directory, and reading objects.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::StoreError;
use crate::id::{ObjectId, ObjectKind};
use crate::locks::{self, Lock};
use crate::pack::{IndexEntry, Pack};
use crate::session::Session;
use crate::steps::{Step, Steps};

const FORMAT: &str = "agentiso store ";
const VERSION: u64 = 1;
/// Each pack is an open file, and a process may have 1024 of them by default.
const MAX_UNTIDY: usize = 128;
/// How often packs are listed again because one was removed meanwhile.
const ATTEMPTS: usize = 100;
const DIRECTORIES: [&str; 5] = ["locks", "packs", "tmp", "leases", "pins"];

/// How a store is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Observes the steps of every operation; tests stop or fail at one of them.
    pub steps: Steps,
}

/// Something that objects are read from: a store, or a session with what it has not committed yet.
pub trait Objects: Sync {
    /// Reads an object and checks its hash.
    fn object(&self, kind: ObjectKind, id: &ObjectId) -> Result<Vec<u8>, StoreError>;
}

/// A directory of packs. Clones share what is open.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    steps: Steps,
    packs: RwLock<Arc<PackSet>>,
}

/// The packs of one moment.
#[derive(Debug, Default)]
pub(crate) struct PackSet {
    pub(crate) packs: Vec<Arc<Pack>>,
    /// Packs that could not be opened, and why.
    pub(crate) damaged: Vec<(PathBuf, StoreError)>,
}

impl PackSet {
    /// Finds an object. A damaged index counts as not having it.
    pub(crate) fn find(&self, id: &ObjectId) -> Option<(&Arc<Pack>, IndexEntry)> {
        self.packs.iter().find_map(|pack| Some((pack, pack.find(id).ok().flatten()?)))
    }
}

impl Store {
    /// Opens a store, for reading too where the file system is read-only.
    pub fn open(root: &Path, options: Options) -> Result<Self, StoreError> {
        let path = root.join("format");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(StoreError::NotAStore {
                    path: root.to_owned(),
                    reason: "it has no file \"format\"",
                });
            }
            Err(source) => return Err(StoreError::Io { what: "read", path, source }),
        };
        let version = text.strip_prefix(FORMAT).and_then(|rest| rest.trim_end().parse::<u64>().ok());
        match version {
            Some(VERSION) => {}
            Some(found) => return Err(StoreError::TooNew { path, found, known: VERSION }),
            None => {
                let reason = "its file \"format\" is of another kind";
                return Err(StoreError::NotAStore { path: root.to_owned(), reason });
            }
        }
        let packs = RwLock::new(Arc::new(PackSet::default()));
        let store = Self(Arc::new(Inner { root: root.to_owned(), steps: options.steps, packs }));
        store.refresh()?;
        Ok(store)
    }

    /// Opens a store, or creates it if the directory does not exist or is empty.
    pub fn open_or_create(root: &Path, options: Options) -> Result<Self, StoreError> {
        if !root.join("format").try_exists().map_err(StoreError::io("read", root))? {
            create(root)?;
        }
        Self::open(root, options)
    }

    /// The directory of the store.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// Begins to write. Joins packs first if there are very many, because nobody called [`crate::tidy`].
    pub fn begin(&self) -> Result<Session, StoreError> {
        if self.packs().packs.len() > MAX_UNTIDY {
            // Only a matter of speed; a disk that is full is reported by the session itself.
            let _ = crate::gc::tidy(self);
        }
        Session::new(self.clone())
    }

    /// Whether an object is in the store, without reading it.
    pub fn contains(&self, id: &ObjectId) -> Result<bool, StoreError> {
        if self.packs().find(id).is_some() {
            return Ok(true);
        }
        Ok(self.refresh()?.find(id).is_some())
    }

    pub(crate) fn step(&self, step: Step) -> Result<(), StoreError> {
        self.0.steps.reach(step).map_err(StoreError::io("write to", &self.0.root))
    }

    pub(crate) fn commit_lock(&self, is_exclusive: bool) -> Result<Lock, StoreError> {
        locks::wait(&self.0.root, locks::COMMIT, is_exclusive)
    }

    pub(crate) fn packs(&self) -> Arc<PackSet> {
        self.0.packs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lists the packs again and opens the new ones.
    pub(crate) fn refresh(&self) -> Result<Arc<PackSet>, StoreError> {
        // A pack that is removed between the listing and its opening has its objects in one that was published before,
        // which the next listing shows.
        for _ in 1..ATTEMPTS {
            match self.list() {
                Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                result => return result,
            }
        }
        self.list()
    }

    fn list(&self) -> Result<Arc<PackSet>, StoreError> {
        let directory = self.0.root.join("packs");
        let open: HashMap<_, _> =
            self.packs().packs.iter().map(|pack| (pack.name().to_owned(), pack.clone())).collect();
        let mut set = PackSet::default();
        for entry in fs::read_dir(&directory).map_err(StoreError::io("read", &directory))? {
            let path = entry.map_err(StoreError::io("read", &directory))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.ends_with(".pack") {
                continue;
            }
            if let Some(pack) = open.get(&*name) {
                set.packs.push(pack.clone());
                continue;
            }
            match Pack::open(&path) {
                Ok(pack) => set.packs.push(Arc::new(pack)),
                Err(error @ StoreError::Damaged { .. }) => set.damaged.push((path, error)),
                Err(error) => return Err(error),
            }
        }
        // Large packs first: they answer most lookups.
        set.packs.sort_by_key(|pack| std::cmp::Reverse((pack.count(), pack.name().to_owned())));
        let set = Arc::new(set);
        *self.0.packs.write().unwrap_or_else(PoisonError::into_inner) = set.clone();
        Ok(set)
    }

    /// Flushes the names of packs to disk.
    pub(crate) fn sync_packs(&self) -> Result<(), StoreError> {
        self.step(Step::SyncPacks)?;
        let path = self.0.root.join("packs");
        fs::File::open(&path)
            .and_then(|directory| directory.sync_all())
            .map_err(StoreError::io("write", &path))
    }

    /// A new name below a directory of the store.
    pub(crate) fn fresh_path(&self, directory: &str, suffix: &str) -> Result<PathBuf, StoreError> {
        Ok(self.0.root.join(directory).join(format!("{}{suffix}", random_name()?)))
    }

    fn read_from(
        &self,
        set: &PackSet,
        kind: ObjectKind,
        id: &ObjectId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let mut failure = None;
        for pack in &set.packs {
            let found = pack.find(id).and_then(|entry| match entry {
                Some(entry) if entry.header.kind == kind => pack.read(&entry).map(Some),
                _ => Ok(None),
            });
            match found {
                Ok(Some(bytes)) => return Ok(Some(bytes)),
                Ok(None) => {}
                // Another pack may have a good copy.
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }
}

impl Objects for Store {
    fn object(&self, kind: ObjectKind, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        if let Ok(Some(bytes)) = self.read_from(&self.packs(), kind, id) {
            return Ok(bytes);
        }
        // Another process may have published or replaced packs.
        let set = self.refresh()?;
        match self.read_from(&set, kind, id)? {
            Some(bytes) => Ok(bytes),
            None => match set.damaged.first() {
                Some((path, error)) => Err(StoreError::damaged(
                    format!("the {} {id}", kind.as_str()),
                    format!("it may be in {}, which is damaged: {error}", path.display()),
                )),
                None => Err(StoreError::Missing { kind, id: *id }),
            },
        }
    }
}

pub(crate) fn random_name() -> Result<String, StoreError> {
    let mut bytes = [0_u8; 16];
    let filled = rustix::io::retry_on_intr(|| {
        rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
    });
    filled.map_err(StoreError::os("read", "the random number generator"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn create(root: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(root).map_err(StoreError::io("create", root))?;
    // A directory with other files in it is somebody else's. Ours may be there from a creation that was interrupted.
    for entry in fs::read_dir(root).map_err(StoreError::io("read", root))? {
        let name = entry.map_err(StoreError::io("read", root))?.file_name();
        let name = name.to_string_lossy();
        if !DIRECTORIES.contains(&&*name) && !name.starts_with("format") {
            return Err(StoreError::NotAStore { path: root.to_owned(), reason: "it has other files in it" });
        }
    }
    for directory in DIRECTORIES {
        let path = root.join(directory);
        builder.create(&path).map_err(StoreError::io("create", &path))?;
    }
    // The format comes last: a store with a format is complete.
    let (partial, path) = (root.join(format!("format.{}", random_name()?)), root.join("format"));
    let write = || {
        let mut file = fs::File::create(&partial)?;
        file.write_all(format!("{FORMAT}{VERSION}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, &path)?;
        fs::File::open(root)?.sync_all()
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&partial);
        StoreError::Io { what: "create", path, source }
    })
}
