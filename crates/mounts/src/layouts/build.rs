//! Makes layouts.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use agentiso_store::{
    MaterialiseOptions, Node, Reuse, Sharing, StoreError, TreeId, Visit, materialise, walk,
};

use super::base::Lease;
use super::cache::{Layouts, NEW};
use super::difference::Layer;
use super::info::{Record, VERSION};
use crate::error::MountError;
use crate::files::{lock_file, new_directory, random_name, remove_tree, try_lock, wait_lock, write_record};
use crate::layer::write_layer;
use crate::support::can_reflink;

/// A published layout.
pub(super) struct Built(pub(super) PathBuf);

/// Space that a file takes at least.
const BLOCK: u64 = 4096;

/// A layout in the making. Removed when dropped, unless it was published.
struct Making {
    path: PathBuf,
    lease: Option<File>,
}

impl Making {
    fn begin(layouts: &Layouts) -> Result<Self, MountError> {
        let directory = layouts.directory();
        let _lock = wait_lock(&directory.join("locks/make"), false)?;
        let path = directory.join(format!("{NEW}{}", random_name()?));
        new_directory(&path, 0o700)?;
        let mut making = Self { path, lease: None };
        let lease_path = making.path.join("lease");
        let lease = lock_file(&lease_path)?;
        try_lock(&lease, true).map_err(MountError::io("lock", &lease_path))?;
        making.lease = Some(lease);
        Ok(making)
    }

    fn tree(&self) -> PathBuf {
        self.path.join("tree")
    }

    /// Gives the layout its name.
    fn publish(mut self, path: &Path, record: &Record) -> Result<Built, MountError> {
        write_record(&self.path.join("info.json"), record)?;
        // From here on others may lease it. The shared lock keeps it from those who look for leftovers.
        if let Some(lease) = &self.lease {
            try_lock(lease, false).map_err(MountError::io("lock", &self.path))?;
        }
        match fs::rename(&self.path, path) {
            Ok(()) => self.path = PathBuf::new(),
            // A damaged or foreign one has the name: it cannot be used, or it would not be made again.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty
                ) =>
            {
                super::evict::set_aside(path)?;
                fs::rename(&self.path, path).map_err(MountError::io("create", path))?;
                self.path = PathBuf::new();
            }
            Err(source) => return Err(MountError::Io { what: "create", path: path.to_owned(), source }),
        }
        Ok(Built(path.to_owned()))
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = remove_tree(&self.path);
        }
    }
}

/// Lays a whole tree out. Files that did not change since another layout are shared with it.
pub(super) fn full(
    layouts: &Layouts,
    name: &str,
    tree: TreeId,
    reuse: Option<(TreeId, &Lease)>,
) -> Result<Built, MountError> {
    let making = Making::begin(layouts)?;
    let sharing = if can_reflink(&making.path) { Sharing::Reflink } else { Sharing::HardLink };
    let directory = reuse.map(|(tree, lease)| (tree, lease.tree()));
    let options = MaterialiseOptions {
        owners: rustix::process::geteuid().is_root(),
        reuse: directory.as_ref().map(|(tree, directory)| Reuse { directory, tree: *tree, sharing }),
        ..MaterialiseOptions::default()
    };
    let done = match materialise(&layouts.0.store, tree, &making.tree(), &options) {
        // The other tree may have been collected.
        Err(error) if error.is_damage() && reuse.is_some() => {
            let plain = MaterialiseOptions { reuse: None, ..options };
            materialise(&layouts.0.store, tree, &making.tree(), &plain)?
        }
        result => result?,
    };
    let entries = done.entries + done.directories;
    let mut bytes = done.directories * BLOCK;
    walk(&layouts.0.store, tree, |_, visit| {
        if let Visit::Other(Node::File(file)) = visit {
            bytes = bytes.saturating_add(file.size.next_multiple_of(BLOCK));
        }
        Ok::<(), StoreError>(())
    })?;
    let record = Record { version: VERSION, tree: tree.to_string(), base: None, entries, bytes };
    making.publish(&layouts.directory().join(name), &record)
}

/// Makes the layer that shows a tree above the layout of another one.
pub(super) fn delta(
    layouts: &Layouts,
    name: &str,
    tree: TreeId,
    base: TreeId,
    layer: &Layer,
) -> Result<Built, MountError> {
    let making = Making::begin(layouts)?;
    new_directory(&making.tree(), 0o700)?;
    write_layer(&layouts.0.store, &making.tree(), layer, rustix::process::geteuid().is_root())?;
    let entries = layer.items.len() as u64;
    let record = Record {
        version: VERSION,
        tree: tree.to_string(),
        base: Some(base.to_string()),
        entries,
        bytes: layer.bytes.saturating_add(entries * BLOCK),
    };
    making.publish(&layouts.directory().join(name), &record)
}
