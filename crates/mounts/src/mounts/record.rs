//! What is recorded about a mount.

use std::path::{Path, PathBuf};

use agentiso_store::TreeId;
use serde::{Deserialize, Serialize};

use crate::error::MountError;
use crate::files::{read_record, write_record};

const VERSION: u32 = 1;

/// What a mount is made of.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The best that the caller may do.
    #[default]
    Auto,
    /// An overlay of the kernel. Only root can mount one where other programs see it.
    Overlay,
    /// A FUSE server.
    Fuse,
    /// A plain directory, and a symbolic link to it in the place of the mount point.
    Plain,
}

/// Whether a mount works.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MountState {
    /// It does.
    Live,
    /// Its server or the host has ended. It has been cleaned up; its working directory is an abandoned one.
    Dead,
}

/// A mount.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MountInfo {
    /// Where it is.
    pub point: PathBuf,
    /// What its creator called it.
    pub label: String,
    /// The tree below the writable layer.
    pub tree: TreeId,
    /// The name of its working directory.
    pub workdir: String,
    /// Nothing can be changed.
    pub read_only: bool,
    /// What it is made of; never `Auto`.
    pub by: By,
    /// The process that serves it, if one does.
    pub server: Option<u32>,
    /// Whether it works.
    pub state: MountState,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Record {
    version: u32,
    /// Bytes, because paths need not be text.
    pub(super) point: Vec<u8>,
    pub(super) label: String,
    pub(super) tree: String,
    pub(super) workdir: String,
    pub(super) read_only: bool,
    pub(super) by: By,
    pub(super) boot: String,
    /// Process and start time of the server.
    pub(super) server: Option<(u32, u64)>,
    /// Where a server finds store, layouts and working directories.
    pub(super) store: Vec<u8>,
    pub(super) layouts: Vec<u8>,
    pub(super) workdirs: Vec<u8>,
}

impl Record {
    pub(super) fn new(
        info: &MountInfo,
        boot: String,
        store: Vec<u8>,
        layouts: Vec<u8>,
        workdirs: Vec<u8>,
    ) -> Self {
        use std::os::unix::ffi::OsStrExt;
        Self {
            version: VERSION,
            point: info.point.as_os_str().as_bytes().to_vec(),
            label: info.label.clone(),
            tree: info.tree.to_string(),
            workdir: info.workdir.clone(),
            read_only: info.read_only,
            by: info.by,
            boot,
            server: None,
            store,
            layouts,
            workdirs,
        }
    }

    pub(super) fn read(path: &Path) -> Result<Option<Self>, MountError> {
        let Some(record) = read_record::<Self>(path)? else { return Ok(None) };
        if record.version != VERSION {
            return Err(MountError::damaged(path, format!("it has version {}", record.version)));
        }
        Ok(Some(record))
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), MountError> {
        write_record(path, self)
    }

    pub(super) fn point(&self) -> PathBuf {
        path(&self.point)
    }

    pub(super) fn info(&self, record: &Path, state: MountState) -> Result<MountInfo, MountError> {
        let tree = TreeId::from_hex(&self.tree);
        Ok(MountInfo {
            point: self.point(),
            label: self.label.clone(),
            tree: tree.ok_or_else(|| MountError::damaged(record, "it does not name a tree"))?,
            workdir: self.workdir.clone(),
            read_only: self.read_only,
            by: self.by,
            server: self.server.map(|(pid, _)| pid),
            state,
        })
    }
}

pub(super) fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
