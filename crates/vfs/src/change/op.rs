//! Operations on files.

use std::io::Read;
use std::sync::Arc;

use agentiso_store::{Content, Lease, Root, Time, TreePath, store_stream};

use crate::{Vaults, VfsError};

/// Content that is stored already, and is kept while this exists.
#[derive(Clone, Debug)]
pub struct Staged {
    pub(super) size: u64,
    pub(super) content: Content,
    #[expect(dead_code, reason = "keeps the content")]
    lease: Arc<Lease>,
}

impl Staged {
    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// Content of a file.
#[derive(Clone, Debug)]
pub enum NewContent {
    /// A small file.
    Bytes(Vec<u8>),
    /// What [`Vaults::stage`] stored.
    Staged(Staged),
}

/// An operation on files. Links in the directories of a path are followed, inside the vault.
#[derive(Clone, Debug)]
pub enum FileOp {
    /// Creates a file or replaces its content. Follows links.
    Write {
        /// The file.
        path: TreePath,
        /// Its content.
        content: NewContent,
        /// Its permission bits; those it has, or `0o644`, without them.
        mode: Option<u16>,
        /// Refuse a file that exists.
        if_absent: bool,
    },
    /// Adds to the end of a file, which is created if it does not exist. Follows links.
    Append {
        /// The file.
        path: TreePath,
        /// What is added.
        content: NewContent,
    },
    /// Creates a directory.
    MakeDirectory {
        /// The directory.
        path: TreePath,
        /// Create what is missing above it; a directory that exists is no error.
        parents: bool,
        /// Its permission bits; `0o755` without them.
        mode: Option<u16>,
    },
    /// Removes a file, a link, or a directory. History keeps it.
    Remove {
        /// What to remove.
        path: TreePath,
        /// A directory with everything in it. An empty directory needs it, too.
        recursive: bool,
        /// A path that does not exist is no error.
        force: bool,
    },
    /// Copies a file, or a directory with everything in it. If the destination is a directory, the copy is put into it.
    Copy {
        /// What to copy.
        from: TreePath,
        /// Where to.
        to: TreePath,
        /// Directories, too.
        recursive: bool,
        /// A file at the destination is replaced.
        replace: bool,
    },
    /// Moves or renames. If the destination is a directory, the thing is moved into it.
    Move {
        /// What to move.
        from: TreePath,
        /// Where to.
        to: TreePath,
        /// A file at the destination is replaced.
        replace: bool,
    },
    /// Creates a symbolic link.
    Symlink {
        /// The link.
        path: TreePath,
        /// Where it points. It need not exist.
        target: Vec<u8>,
        /// A file or link that exists is replaced.
        replace: bool,
    },
    /// Sets permission bits. Follows links.
    SetMode {
        /// The file or directory.
        path: TreePath,
        /// At most `0o7777`.
        mode: u16,
    },
    /// Sets the modification time. Follows links.
    SetTime {
        /// The file or directory.
        path: TreePath,
        /// The time.
        time: Time,
    },
    /// Adds a tag. The path must exist.
    AddTag {
        /// The path.
        path: TreePath,
        /// The tag.
        tag: String,
    },
    /// Removes a tag. The path must have it.
    RemoveTag {
        /// The path.
        path: TreePath,
        /// The tag.
        tag: String,
    },
    /// Sets a value of the metadata. The path must exist.
    SetMetadata {
        /// The path.
        path: TreePath,
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Removes a value of the metadata. The path must have it.
    RemoveMetadata {
        /// The path.
        path: TreePath,
        /// The key.
        key: String,
    },
}

impl FileOp {
    /// A file with this content, whatever was there.
    pub fn write(path: &TreePath, bytes: impl Into<Vec<u8>>) -> Self {
        let content = NewContent::Bytes(bytes.into());
        Self::Write { path: path.clone(), content, mode: None, if_absent: false }
    }

    /// The word for the journal and the audit log.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Write { .. } => "write_file",
            Self::Append { .. } => "append_file",
            Self::MakeDirectory { .. } => "create_dir",
            Self::Remove { .. } => "delete_file",
            Self::Copy { .. } => "copy",
            Self::Move { .. } => "move",
            Self::Symlink { .. } => "create_link",
            Self::SetMode { .. } => "set_mode",
            Self::SetTime { .. } => "set_time",
            Self::AddTag { .. } => "tag",
            Self::RemoveTag { .. } => "untag",
            Self::SetMetadata { .. } => "meta_set",
            Self::RemoveMetadata { .. } => "meta_delete",
        }
    }

    /// The path that it is mainly about.
    pub(super) fn path(&self) -> &TreePath {
        match self {
            Self::Write { path, .. }
            | Self::Append { path, .. }
            | Self::MakeDirectory { path, .. }
            | Self::Remove { path, .. }
            | Self::Symlink { path, .. }
            | Self::SetMode { path, .. }
            | Self::SetTime { path, .. }
            | Self::AddTag { path, .. }
            | Self::RemoveTag { path, .. }
            | Self::SetMetadata { path, .. }
            | Self::RemoveMetadata { path, .. } => path,
            Self::Copy { to, .. } | Self::Move { to, .. } => to,
        }
    }
}

impl Vaults {
    /// Stores content that operations use later. Worth it for large files, which are then read only once.
    pub fn stage(&self, reader: impl Read) -> Result<Staged, VfsError> {
        let session = self.store.begin()?;
        let (size, content) = store_stream(&session, reader)?;
        let lease = session.commit(&[Root::Content(content)])?;
        Ok(Staged { size, content, lease: Arc::new(lease) })
    }
}
