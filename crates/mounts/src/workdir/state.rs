//! What is recorded about a working directory.

use std::path::Path;

use agentiso_store::TreeId;
use serde::{Deserialize, Serialize};

use crate::error::MountError;
use crate::files::{read_record, write_record};

const VERSION: u32 = 1;
pub(super) const RECORD: &str = "state.json";
const MAX_LABEL: usize = 1024;

/// How the tree and the writable layer are joined.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An overlay for user namespaces where they can mount one, else a plain directory.
    #[default]
    Auto,
    /// An overlay that a user namespace, or root, mounts.
    Overlay,
    /// An overlay that only root can mount, and that renames directories of the lower layer without copying them.
    OverlayOfRoot,
    /// A copy of the tree. Changes are found by comparison.
    Plain,
}

/// What a working directory is created with.
#[derive(Clone, Debug, Default)]
pub struct WorkDirOptions {
    /// What the caller wants to know when it finds the directory again, for example a vault and a fork. At most 1,024 bytes.
    pub label: String,
    /// How the layers are joined.
    pub kind: Kind,
}

impl WorkDirOptions {
    pub(super) fn check(&self) -> Result<(), MountError> {
        if self.label.len() > MAX_LABEL {
            return Err(MountError::invalid("the label", format!("it is longer than {MAX_LABEL} bytes")));
        }
        Ok(())
    }
}

/// A working directory as it is on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkDirInfo {
    /// Its name.
    pub name: String,
    /// What its creator called it.
    pub label: String,
    /// The tree below the writable layer.
    pub tree: TreeId,
    /// The tree that was read from it last.
    pub current: TreeId,
    /// Never `Auto`.
    pub kind: Kind,
    /// Whether a live process holds it, or it is mounted.
    pub in_use: bool,
}

/// The record of a working directory.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) tree: TreeId,
    pub(crate) current: TreeId,
    pub(crate) kind: Kind,
    pub(crate) label: String,
    pub(crate) generation: u64,
    /// The root of the writable layer before anything was changed.
    pub(crate) untouched: String,
}

#[derive(Deserialize, Serialize)]
struct Record {
    version: u32,
    tree: String,
    current: String,
    kind: Kind,
    label: String,
    generation: u64,
    untouched: String,
}

impl State {
    /// Reads the record of a working directory; nothing if it was removed.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, MountError> {
        let path = directory.join(RECORD);
        let Some(record) = read_record::<Record>(&path)? else { return Ok(None) };
        if record.version != VERSION {
            return Err(MountError::damaged(&path, format!("it has version {}", record.version)));
        }
        let id = |text: &str| {
            TreeId::from_hex(text).ok_or_else(|| MountError::damaged(&path, "it does not name a tree"))
        };
        Ok(Some(Self {
            tree: id(&record.tree)?,
            current: id(&record.current)?,
            kind: record.kind,
            label: record.label,
            generation: record.generation,
            untouched: record.untouched,
        }))
    }

    pub(crate) fn write(&self, directory: &Path) -> Result<(), MountError> {
        let record = Record {
            version: VERSION,
            tree: self.tree.to_string(),
            current: self.current.to_string(),
            kind: self.kind,
            label: self.label.clone(),
            generation: self.generation,
            untouched: self.untouched.clone(),
        };
        write_record(&directory.join(RECORD), &record)
    }

    /// The name of the directory that has the changes: the writable layer, or the plain directory.
    pub(crate) fn writable(&self) -> String {
        let kind = if self.kind == Kind::Plain { "tree" } else { "upper" };
        format!("{kind}-{}", self.generation)
    }

    /// The name of the directory that the kernel works in.
    pub(crate) fn work(&self) -> String {
        format!("work-{}", self.generation)
    }
}
