//! Removes layouts that nobody uses.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::cache::{Layouts, OLD};
use super::info::{LayoutInfo, full_name};
use crate::error::MountError;
use crate::files::{boot_id, names, random_name, remove_tree, try_lock};

/// Begins the names of the marks of mounts that no process of ours holds.
const MARK: &str = "mount-";

/// What an eviction did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Evicted {
    /// Layouts that were removed.
    pub layouts: u64,
    /// The space that they took.
    pub bytes: u64,
}

impl Layouts {
    /// Removes the least recently used layouts until the others fit the budget. Leaves those that are in use.
    pub fn evict(&self) -> Result<Evicted, MountError> {
        let mut all = self.list()?;
        let full: HashSet<String> =
            all.iter().filter(|info| info.base.is_none()).map(|info| full_name(info.tree)).collect();
        let mut total: u64 = all.iter().map(|info| info.bytes).sum();
        all.sort_by_key(|info| info.last_used);
        let mut evicted = Evicted::default();
        for info in all {
            let is_orphan = info.base.is_some_and(|base| !full.contains(&full_name(base)));
            if (total > self.0.options.budget_bytes || is_orphan) && self.remove(&info)? {
                total = total.saturating_sub(info.bytes);
                evicted.layouts += 1;
                evicted.bytes += info.bytes;
            }
        }
        Ok(evicted)
    }

    /// Removes a layout unless it is in use.
    fn remove(&self, info: &LayoutInfo) -> Result<bool, MountError> {
        if is_marked(&info.path)? {
            return Ok(false);
        }
        let lock_path = info.path.join("lease");
        let lease = match File::open(&lock_path) {
            Ok(lease) => lease,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(MountError::io("open", &lock_path)(error)),
        };
        if !try_lock(&lease, true).map_err(MountError::io("lock", &lock_path))? {
            return Ok(false);
        }
        let aside = self.directory().join(format!("{OLD}{}", random_name()?));
        fs::rename(&info.path, &aside).map_err(MountError::io("remove", &info.path))?;
        remove_tree(&aside)?;
        Ok(true)
    }
}

/// Moves what is not a usable layout out of the way. If it is in use, it is removed when the cache is opened later.
pub(super) fn set_aside(path: &Path) -> Result<(), MountError> {
    let aside = path.with_file_name(format!("{OLD}{}", random_name()?));
    fs::rename(path, &aside).map_err(MountError::io("remove", path))?;
    let lock_path = aside.join("lease");
    match File::open(&lock_path) {
        Ok(lease) if !try_lock(&lease, true).map_err(MountError::io("lock", &lock_path))? => return Ok(()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(MountError::io("open", &lock_path)(error)),
    }
    remove_tree(&aside)
}

/// Whether a mount that outlives its process uses the layout. Marks of an earlier boot mean nothing.
fn is_marked(path: &Path) -> Result<bool, MountError> {
    for name in names(path)?.iter().filter(|name| name.starts_with(MARK)) {
        let mark = path.join(name);
        match fs::read_to_string(&mark) {
            Ok(text) if text == boot_id() => return Ok(true),
            Ok(_) => fs::remove_file(&mark).map_err(MountError::io("remove", &mark))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(MountError::io("read", &mark)(error)),
        }
    }
    Ok(false)
}

/// Marks layouts as used by a mount.
pub(crate) fn mark(layout: &Path, user: &str) -> Result<(), MountError> {
    let path = layout.join(format!("{MARK}{user}"));
    fs::write(&path, boot_id()).map_err(MountError::io("write", &path))
}

/// Removes the marks of a mount from all layouts.
pub(crate) fn unmark(layouts: &Layouts, user: &str) -> Result<(), MountError> {
    for info in layouts.list()? {
        let path = info.path.join(format!("{MARK}{user}"));
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(MountError::io("remove", &path)(error)),
        }
    }
    Ok(())
}
