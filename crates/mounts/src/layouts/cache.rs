//! The cache of layouts.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_store::{Store, Time, TreeId, directory_meta};

use super::base::{Base, Lease};
use super::build::{self, Built};
use super::difference::{Layer, Limits, difference};
use super::info::{LayoutInfo, delta_name, full_name};
use crate::error::MountError;
use crate::files::{lock_file, names, private_directory, remove_tree, try_lock, wait_lock};

/// Layouts that are compared with a wanted tree, the last used first.
const CANDIDATES: usize = 6;
const LOCKS: usize = 16;
pub(super) const NEW: &str = ".new-";
pub(super) const OLD: &str = ".old-";

/// What the cache may grow to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LayoutOptions {
    /// Space for all layouts together; those that are in use may exceed it.
    pub budget_bytes: u64,
    /// Most files and directories of a layer over another layout. A tree that differs more is laid out.
    pub max_delta_entries: usize,
    /// Most bytes of such a layer.
    pub max_delta_bytes: u64,
}

impl Default for LayoutOptions {
    fn default() -> Self {
        Self { budget_bytes: 20 << 30, max_delta_entries: 4000, max_delta_bytes: 64 << 20 }
    }
}

/// A directory of layouts. Any number of processes use it at once. Clones are the same cache.
#[derive(Clone, Debug)]
pub struct Layouts(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) directory: PathBuf,
    pub(super) store: Store,
    pub(super) options: LayoutOptions,
}

impl Layouts {
    /// Opens the cache, creates its directory if necessary, and removes what killed processes left.
    pub fn open(directory: &Path, store: &Store, options: LayoutOptions) -> Result<Self, MountError> {
        private_directory(&directory.join("locks"))?;
        let directory = std::path::absolute(directory).map_err(MountError::io("find", directory))?;
        let layouts = Self(Arc::new(Inner { directory, store: store.clone(), options }));
        layouts.remove_leftovers()?;
        Ok(layouts)
    }

    /// The directory of the cache.
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// The lower layers of a tree. Reuses its layout, or puts a small layer above that of a similar tree, or lays it out.
    /// The caller keeps the tree in the store meanwhile.
    pub fn base(&self, tree: TreeId) -> Result<Base, MountError> {
        if let Some(base) = self.existing(tree)? {
            return Ok(base);
        }
        // The same tree is made once; the others wait for it.
        let number = usize::from(tree.0.as_bytes()[0]) % LOCKS;
        let _making = wait_lock(&self.0.directory.join(format!("locks/{number:02}")), true)?;
        if let Some(base) = self.existing(tree)? {
            return Ok(base);
        }
        let limits =
            Limits { entries: self.0.options.max_delta_entries, bytes: self.0.options.max_delta_bytes };
        let mut nearest: Option<(Layer, LayoutInfo, Lease)> = None;
        let mut similar = None;
        for candidate in self.full_layouts()?.into_iter().take(CANDIDATES) {
            let Some(lease) = Lease::take(&candidate.path)? else { continue };
            let compared = match self.is_good(&candidate.path, candidate.tree) {
                Ok(true) => difference(&self.0.store, candidate.tree, tree, limits).map_err(MountError::from),
                Ok(false) => continue,
                Err(error) => Err(error),
            };
            let found = match compared {
                Ok(found) => found,
                // Its tree may have been collected; its directory is still good, but unknown.
                Err(MountError::Store(error)) if error.is_damage() => continue,
                Err(error) => return Err(error),
            };
            match found {
                Some(layer)
                    if nearest.as_ref().is_none_or(|(best, ..)| layer.items.len() < best.items.len()) =>
                {
                    let is_tiny = layer.items.len() <= 64;
                    nearest = Some((layer, candidate, lease));
                    if is_tiny {
                        break;
                    }
                }
                Some(_) => {}
                None => similar = similar.or(Some((candidate, lease))),
            }
        }
        match nearest {
            Some((layer, below, lease)) => {
                let name = delta_name(tree, below.tree);
                let above = build::delta(self, &name, tree, below.tree, &layer)?;
                self.based_on(tree, above, Some(lease))
            }
            None => {
                let reuse = similar.as_ref().map(|(info, lease)| (info.tree, lease));
                let built = build::full(self, &full_name(tree), tree, reuse)?;
                let base = self.based_on(tree, built, None)?;
                // Only a matter of space; what is in use stays, and the next one tries again.
                let _ = self.evict();
                Ok(base)
            }
        }
    }

    fn based_on(&self, tree: TreeId, built: Built, below: Option<Lease>) -> Result<Base, MountError> {
        let Built(path) = built;
        let top = Lease::take(&path)?.ok_or_else(|| MountError::busy("the cache of layouts"))?;
        let leases: Vec<Lease> = [top].into_iter().chain(below).collect();
        Ok(Base { tree, lowers: leases.iter().map(Lease::tree).collect(), leases })
    }

    /// Leases what shows the tree already.
    fn existing(&self, tree: TreeId) -> Result<Option<Base>, MountError> {
        let full = self.0.directory.join(full_name(tree));
        if let Some(lease) = Lease::take(&full)?
            && self.is_good(&full, tree)?
        {
            return Ok(Some(Base { tree, lowers: vec![lease.tree()], leases: vec![lease] }));
        }
        let prefix = format!("{}-", full_name(tree));
        for name in names(&self.0.directory)? {
            let Some(below) = name.strip_prefix(&prefix) else { continue };
            let Some(top) = Lease::take(&self.0.directory.join(&name))? else { continue };
            let Some(below) = Lease::take(&self.0.directory.join(below))? else { continue };
            if self.is_good(&top.path, tree)? {
                let leases = vec![top, below];
                return Ok(Some(Base { tree, lowers: leases.iter().map(Lease::tree).collect(), leases }));
            }
        }
        Ok(None)
    }

    /// Whether a layout is that of the tree, judged by its record and its root: adding and removing entries there changes
    /// its time. `verify` looks at everything.
    fn is_good(&self, path: &Path, tree: TreeId) -> Result<bool, MountError> {
        let Some(info) = LayoutInfo::read(path)? else { return Ok(false) };
        let root = path.join("tree");
        let found = match std::fs::symlink_metadata(&root) {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(MountError::io("read", &root)(error)),
        };
        let wanted = directory_meta(&self.0.store, tree)?.mtime;
        let time = Time { seconds: found.mtime(), nanos: found.mtime_nsec() as u32 };
        Ok(info.tree == tree && found.is_dir() && time == wanted)
    }

    /// Layouts of whole trees, the last used first.
    fn full_layouts(&self) -> Result<Vec<LayoutInfo>, MountError> {
        let mut all = self.list()?;
        all.retain(|info| info.base.is_none());
        all.sort_by_key(|info| std::cmp::Reverse(info.last_used));
        Ok(all)
    }

    /// All layouts.
    pub fn list(&self) -> Result<Vec<LayoutInfo>, MountError> {
        let mut all = Vec::new();
        for name in names(&self.0.directory)? {
            if name.starts_with('.') || name == "locks" {
                continue;
            }
            all.extend(LayoutInfo::read(&self.0.directory.join(name))?);
        }
        Ok(all)
    }

    fn remove_leftovers(&self) -> Result<(), MountError> {
        // Makers hold this lock while their directory has no lease yet.
        let lock = self.0.directory.join("locks/make");
        let file = lock_file(&lock)?;
        if !try_lock(&file, true).map_err(MountError::io("lock", &lock))? {
            return Ok(());
        }
        for name in names(&self.0.directory)? {
            if !name.starts_with(NEW) && !name.starts_with(OLD) {
                continue;
            }
            let path = self.0.directory.join(&name);
            let is_abandoned = match std::fs::File::open(path.join("lease")) {
                Ok(lease) => try_lock(&lease, true).map_err(MountError::io("lock", &path))?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
                Err(error) => return Err(MountError::io("open", &path)(error)),
            };
            if is_abandoned {
                remove_tree(&path)?;
            }
        }
        Ok(())
    }
}
