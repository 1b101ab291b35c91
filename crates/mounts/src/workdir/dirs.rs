//! All working directories of one installation.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_store::{MaterialiseOptions, Reuse, Root, Sharing, Store, TreeId, materialise};

use super::held::WorkDir;
use super::stamp::stamp;
use super::state::{Kind, State, WorkDirInfo, WorkDirOptions};
use crate::error::MountError;
use crate::files::{
    boot_id, is_at, lock_file, names, new_directory, private_directory, random_name, remove_tree, try_lock,
    wait_lock,
};
use crate::layer::write_layer;
use crate::layouts::{Item, Layer, Layouts};
use crate::support::Support;

const NEW: &str = ".new-";
pub(super) const OLD: &str = ".old-";
pub(super) const HOLD: &str = "hold";
/// Left in a directory that is mounted by the kernel alone, without a process that holds it.
const MOUNTED: &str = "mounted";

/// A directory of working directories. Any number of processes use it at once. Clones are the same directory.
#[derive(Clone, Debug)]
pub struct WorkDirs(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) directory: PathBuf,
    pub(super) store: Store,
    pub(super) layouts: Layouts,
    pub(super) support: Support,
}

impl WorkDirs {
    /// Opens the directory, creates it if necessary, and removes what killed processes left half made or half removed. It
    /// must be on the same file system as the layouts.
    pub fn open(
        directory: &Path,
        store: &Store,
        layouts: &Layouts,
        support: &Support,
    ) -> Result<Self, MountError> {
        private_directory(directory)?;
        let directory = std::path::absolute(directory).map_err(MountError::io("find", directory))?;
        let device =
            |path: &Path| fs::metadata(path).map(|found| found.dev()).map_err(MountError::io("read", path));
        if device(&directory)? != device(layouts.directory())? {
            let reason = "it must be on the same file system as the layouts";
            return Err(MountError::invalid(directory.display(), reason));
        }
        let inner =
            Inner { directory, store: store.clone(), layouts: layouts.clone(), support: support.clone() };
        let dirs = Self(Arc::new(inner));
        dirs.remove_leftovers()?;
        Ok(dirs)
    }

    /// The directory of all working directories.
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// The lower layers that working directories use.
    pub fn layouts(&self) -> &Layouts {
        &self.0.layouts
    }

    /// The store that trees are in.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// What the host can do.
    pub fn support(&self) -> &Support {
        &self.0.support
    }

    /// Makes a working directory that shows a tree. The caller keeps the tree in the store meanwhile.
    pub fn create(&self, tree: TreeId, options: &WorkDirOptions) -> Result<WorkDir, MountError> {
        options.check()?;
        let kind = self.settle(options.kind)?;
        let lease = self.0.store.hold(Root::Tree(tree))?;
        let name = random_name()?;
        let partial = self.0.directory.join(format!("{NEW}{name}"));
        let path = self.0.directory.join(&name);
        let made = self.make(&partial, tree, kind, options).and_then(|hold| {
            fs::rename(&partial, &path).map_err(MountError::io("create", &path))?;
            Ok(hold)
        });
        let hold = made.inspect_err(|_| drop(remove_tree(&partial)))?;
        let state = State::read(&path)?.ok_or_else(|| missing(&name))?;
        let workdir = WorkDir::new(self.clone(), name, state, Some(hold), lease);
        workdir.access()?;
        Ok(workdir)
    }

    /// The kind that is used, or why it cannot be.
    fn settle(&self, kind: Kind) -> Result<Kind, MountError> {
        let unsupported = |what, reason: &str| MountError::Unsupported { what, reason: reason.to_owned() };
        match kind {
            Kind::Auto if self.0.support.overlay().is_ok() => Ok(Kind::Overlay),
            Kind::Auto | Kind::Plain => Ok(Kind::Plain),
            Kind::Overlay => match self.0.support.overlay() {
                Ok(()) => Ok(kind),
                Err(reason) => Err(unsupported("an overlay", reason)),
            },
            Kind::OverlayOfRoot => match self.0.support.direct() {
                Ok(()) => Ok(kind),
                Err(reason) => Err(unsupported("an overlay mounted by root", reason)),
            },
        }
    }

    fn make(
        &self,
        partial: &Path,
        tree: TreeId,
        kind: Kind,
        options: &WorkDirOptions,
    ) -> Result<File, MountError> {
        let hold = {
            // Nobody may look for leftovers between creating the directory and locking it.
            let _make = wait_lock(&self.make_lock(), false)?;
            new_directory(partial, 0o700)?;
            let hold = lock_file(&partial.join(HOLD))?;
            try_lock(&hold, true).map_err(MountError::io("lock", partial))?;
            hold
        };
        let mut state = State {
            tree,
            current: tree,
            kind,
            label: options.label.clone(),
            generation: 0,
            untouched: String::new(),
        };
        self.fill(partial, &mut state)?;
        state.write(partial)?;
        Ok(hold)
    }

    /// Makes the directories of a generation.
    pub(super) fn fill(&self, directory: &Path, state: &mut State) -> Result<(), MountError> {
        let writable = directory.join(state.writable());
        let owners = rustix::process::geteuid().is_root();
        if state.kind == Kind::Plain {
            self.copy(&writable, state.tree, owners)?;
            state.untouched = String::new();
            return Ok(());
        }
        new_directory(&directory.join(state.work()), 0o700)?;
        new_directory(&writable, 0o700)?;
        let empty = directory.join("empty");
        if !empty.is_dir() {
            new_directory(&empty, 0o500)?;
        }
        // The metadata of the uppermost layer's root is what the overlay shows.
        let meta = agentiso_store::directory_meta(&self.0.store, state.tree)?;
        let items = [(agentiso_store::TreePath::root(), Item::Directory(meta))].into();
        write_layer(&self.0.store, &writable, &Layer { items, bytes: 0 }, owners)?;
        state.untouched = stamp(&writable)?;
        Ok(())
    }

    /// Copies a tree, by reflink from a layout where the file system can.
    fn copy(&self, to: &Path, tree: TreeId, owners: bool) -> Result<(), MountError> {
        let base = if self.0.support.reflink() { Some(self.0.layouts.base(tree)?) } else { None };
        // A layer of differences is not a whole tree.
        let whole = base.as_ref().map(|base| base.lowers()).and_then(|lowers| match lowers {
            [only] => Some(only),
            _ => None,
        });
        let reuse = whole.map(|directory| Reuse { directory, tree, sharing: Sharing::Reflink });
        let options = MaterialiseOptions { owners, reuse, ..MaterialiseOptions::default() };
        materialise(&self.0.store, tree, to, &options)?;
        Ok(())
    }

    /// Takes a working directory that no live process holds.
    pub fn claim(&self, name: &str) -> Result<WorkDir, MountError> {
        let path = self.path_of(name)?;
        if self.is_mounted(&path)? {
            return Err(MountError::busy(format!("the working directory {name}")));
        }
        let lock_path = path.join(HOLD);
        let hold = match File::options().read(true).write(true).open(&lock_path) {
            Ok(hold) => hold,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing(name)),
            Err(error) => return Err(MountError::io("open", &lock_path)(error)),
        };
        if !try_lock(&hold, true).map_err(MountError::io("lock", &lock_path))? {
            return Err(MountError::busy(format!("the working directory {name}")));
        }
        if !is_at(&hold, &lock_path).map_err(MountError::io("read", &lock_path))? {
            return Err(missing(name));
        }
        let state = State::read(&path)?.ok_or_else(|| missing(name))?;
        let lease = self.0.store.hold(Root::Tree(state.tree))?;
        let workdir = WorkDir::new(self.clone(), name.to_owned(), state, Some(hold), lease);
        workdir.remove_old_generations()?;
        Ok(workdir)
    }

    /// Opens a working directory that another process holds, to read its changes. It cannot be reset or removed so.
    pub fn visit(&self, name: &str) -> Result<WorkDir, MountError> {
        let path = self.path_of(name)?;
        let state = State::read(&path)?.ok_or_else(|| missing(name))?;
        let lease = self.0.store.hold(Root::Tree(state.tree))?;
        Ok(WorkDir::new(self.clone(), name.to_owned(), state, None, lease))
    }

    /// All working directories. One whose record is damaged is an error, and stays where it is.
    pub fn list(&self) -> Result<Vec<WorkDirInfo>, MountError> {
        let mut found = Vec::new();
        for name in self.names()? {
            let path = self.0.directory.join(&name);
            let Some(state) = State::read(&path)? else { continue };
            let in_use = self.is_mounted(&path)? || is_held(&path)?;
            let State { tree, current, kind, label, .. } = state;
            found.push(WorkDirInfo { name, label, tree, current, kind, in_use });
        }
        Ok(found)
    }

    /// Takes all working directories whose process was killed. Their changes are still there: ingest them, or keep them.
    pub fn abandoned(&self) -> Result<Vec<WorkDir>, MountError> {
        let mut found = Vec::new();
        for name in self.names()? {
            match self.claim(&name) {
                Ok(workdir) => found.push(workdir),
                Err(MountError::Busy { .. } | MountError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// What garbage collection must keep for working directories, held or abandoned.
    pub fn roots(&self) -> Result<Vec<Root>, MountError> {
        let mut roots = Vec::new();
        for info in self.list()? {
            roots.push(Root::Tree(info.tree));
            roots.push(Root::Tree(info.current));
        }
        Ok(roots)
    }

    fn names(&self) -> Result<Vec<String>, MountError> {
        Ok(names(&self.0.directory)?.into_iter().filter(|name| is_name(name)).collect())
    }

    fn path_of(&self, name: &str) -> Result<PathBuf, MountError> {
        if !is_name(name) {
            return Err(MountError::invalid(
                format!("the name {name:?}"),
                "it is not that of a working directory",
            ));
        }
        Ok(self.0.directory.join(name))
    }

    /// Whether the kernel has it mounted without a process of ours. A mark of an earlier boot means nothing.
    fn is_mounted(&self, path: &Path) -> Result<bool, MountError> {
        match fs::read_to_string(path.join(MOUNTED)) {
            Ok(boot) => Ok(boot == boot_id()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(MountError::io("read", path)(error)),
        }
    }

    /// Marks a working directory as mounted by the kernel alone, or removes the mark.
    pub(crate) fn set_mounted(&self, name: &str, is_mounted: bool) -> Result<(), MountError> {
        let path = self.path_of(name)?.join(MOUNTED);
        let done = if is_mounted { fs::write(&path, boot_id()) } else { fs::remove_file(&path) };
        match done {
            Err(error) if !is_mounted && error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(MountError::io("write", &path)),
        }
    }

    fn make_lock(&self) -> PathBuf {
        self.0.directory.join(".make.lock")
    }

    fn remove_leftovers(&self) -> Result<(), MountError> {
        let lock = lock_file(&self.make_lock())?;
        if !try_lock(&lock, true).map_err(MountError::io("lock", self.make_lock()))? {
            return Ok(());
        }
        for name in names(&self.0.directory)? {
            if !name.starts_with(NEW) && !name.starts_with(OLD) {
                continue;
            }
            let path = self.0.directory.join(&name);
            if !is_held(&path)? {
                remove_tree(&path)?;
            }
        }
        Ok(())
    }
}

pub(super) fn missing(name: &str) -> MountError {
    MountError::NotFound { what: format!("the working directory {name}") }
}

fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a live process holds a directory.
fn is_held(path: &Path) -> Result<bool, MountError> {
    let lock_path = path.join(HOLD);
    match File::open(&lock_path) {
        Ok(hold) => Ok(!try_lock(&hold, true).map_err(MountError::io("lock", &lock_path))?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(MountError::io("open", &lock_path)(error)),
    }
}
