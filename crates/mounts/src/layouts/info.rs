//! What is known about a layout.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use agentiso_store::TreeId;
use serde::{Deserialize, Serialize};

use crate::error::MountError;
use crate::files::read_record;

pub(super) const VERSION: u32 = 1;
/// Digits of a tree in the names of layouts: enough to tell trees apart, and short, because the kernel limits the length
/// of all paths of an overlay together.
const DIGITS: usize = 32;

/// A layout in the cache.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LayoutInfo {
    /// The tree that it shows, alone or above its base.
    pub tree: TreeId,
    /// Set if it is only the difference to the layout of another tree.
    pub base: Option<TreeId>,
    /// Number of files and directories in it.
    pub entries: u64,
    /// Space that its files take, counting shared ones.
    pub bytes: u64,
    /// When it was last used.
    pub last_used: SystemTime,
    pub(super) path: PathBuf,
}

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Record {
    pub(super) version: u32,
    pub(super) tree: String,
    pub(super) base: Option<String>,
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

pub(super) fn full_name(tree: TreeId) -> String {
    let mut name = tree.to_string();
    name.truncate(DIGITS);
    name
}

pub(super) fn delta_name(tree: TreeId, base: TreeId) -> String {
    format!("{}-{}", full_name(tree), full_name(base))
}

impl LayoutInfo {
    /// Reads what a published layout says about itself; nothing if it has been removed.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, MountError> {
        let record_path = path.join("info.json");
        let Some(record) = read_record::<Record>(&record_path)? else { return Ok(None) };
        if record.version != VERSION {
            return Err(MountError::damaged(&record_path, format!("it has version {}", record.version)));
        }
        let id = |text: &str| {
            TreeId::from_hex(text).ok_or_else(|| MountError::damaged(&record_path, "it names no tree"))
        };
        let base = record.base.as_deref().map(id).transpose()?;
        let last_used = match std::fs::metadata(path.join("lease")).and_then(|metadata| metadata.modified()) {
            Ok(time) => time,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(MountError::io("read", path)(error)),
        };
        Ok(Some(Self {
            tree: id(&record.tree)?,
            base,
            entries: record.entries,
            bytes: record.bytes,
            last_used,
            path: path.to_owned(),
        }))
    }
}
