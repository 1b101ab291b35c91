//! Errors of the store.

use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain};

use crate::id::{ObjectId, ObjectKind};
use crate::path::TreePath;

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file or directory could not be read or written.
    #[error("could not {what} {}", path.display())]
    Io {
        /// The failed step, for example "write".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The directory is not a store.
    #[error("{} is not a store: {reason}", path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// Why it is not one.
        reason: &'static str,
    },
    /// The store was written by a newer program.
    #[error("{} has format {found}, and this program knows formats up to {known}", path.display())]
    TooNew {
        /// The file with the format.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest supported format.
        known: u64,
    },
    /// An object is not in the store.
    #[error("the {} {id} is not in the store", kind.as_str())]
    Missing {
        /// The kind that was looked for.
        kind: ObjectKind,
        /// The object.
        id: ObjectId,
    },
    /// An object or a pack is damaged.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// The object or the file.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A name, path or size is not allowed.
    #[error("{what}: {reason}")]
    Invalid {
        /// The rejected value.
        what: String,
        /// The rule it breaks.
        reason: String,
    },
    /// The path does not exist in the tree.
    #[error("{path} does not exist in the tree")]
    NotFound {
        /// The path.
        path: TreePath,
    },
    /// A component of the path is not a directory.
    #[error("{path} is not a directory in the tree")]
    NotADirectory {
        /// The component.
        path: TreePath,
    },
    /// The path is not a regular file.
    #[error("{path} is not a regular file in the tree")]
    NotAFile {
        /// The path.
        path: TreePath,
    },
    /// A change does not fit the tree that it is applied to.
    #[error("{path} is not what the change expects")]
    Mismatch {
        /// The path.
        path: TreePath,
    },
    /// The destination exists.
    #[error("{} already exists", path.display())]
    Exists {
        /// The destination.
        path: PathBuf,
    },
    /// Another process is collecting garbage or repairing.
    #[error("another process is collecting garbage in {}", path.display())]
    Busy {
        /// The store.
        path: PathBuf,
    },
    /// Something to import changed all the time, or could not be read.
    #[error("could not import {}: {reason}", path.display())]
    Import {
        /// The file on the host.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// An archive is malformed or hostile.
    #[error("the archive is rejected: {reason}")]
    Archive {
        /// What is wrong with it.
        reason: String,
    },
    /// The program `git` is not installed.
    #[error("the program git could not be started")]
    GitMissing(#[source] io::Error),
    /// The program `git` failed.
    #[error("git {command} failed: {message}")]
    Git {
        /// The subcommand.
        command: &'static str,
        /// What it printed.
        message: String,
    },
}

impl StoreError {
    pub(crate) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.as_ref().to_owned(), source }
    }

    pub(crate) fn os(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |error| Self::Io { what, path: path.as_ref().to_owned(), source: error.into() }
    }

    pub(crate) fn damaged(what: impl ToString, reason: impl ToString) -> Self {
        Self::Damaged { what: what.to_string(), reason: reason.to_string() }
    }

    pub(crate) fn invalid(what: impl ToString, reason: impl ToString) -> Self {
        Self::Invalid { what: what.to_string(), reason: reason.to_string() }
    }

    pub(crate) fn archive(reason: impl ToString) -> Self {
        Self::Archive { reason: reason.to_string() }
    }

    /// Whether an object cannot be read because it is missing or damaged, as opposed to a failing disk.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Damaged { .. })
    }
}

impl Explain for StoreError {
    fn code(&self) -> Code {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                Code::PermissionDenied
            }
            Self::Io { source, .. } => Code::of_io(source),
            Self::NotAStore { .. } => Code::StorageUnavailable,
            Self::TooNew { .. } => Code::ToolTooOld,
            Self::Missing { .. } | Self::Damaged { .. } => Code::DataDamaged,
            Self::Invalid { .. } | Self::Archive { .. } | Self::NotAFile { .. } => Code::InvalidArgument,
            Self::NotFound { .. } => Code::FileNotFound,
            Self::NotADirectory { .. } => Code::NotADirectory,
            Self::Mismatch { .. } => Code::EditMismatch,
            Self::Exists { .. } => Code::FileExists,
            Self::Busy { .. } => Code::Timeout,
            Self::Import { .. } => Code::Io,
            Self::GitMissing(_) => Code::ToolMissing,
            Self::Git { .. } => Code::GitFailed,
        }
    }

    fn remedy(&self) -> Option<String> {
        let remedy = match self {
            Self::Io { .. } if self.code() == Code::DiskFull => {
                "free some space and try again; nothing was changed"
            }
            Self::NotAStore { .. } => "give the directory of a store, or an empty one to create it",
            Self::TooNew { .. } => "use the newer program that wrote it",
            Self::Missing { .. } | Self::Damaged { .. } => {
                "run fsck; it names the affected files and repairs them from a directory that still has them"
            }
            Self::Mismatch { .. } => "compare again; the tree has changed since",
            Self::Exists { .. } => "give a path that does not exist, or an empty directory",
            Self::Busy { .. } => "wait for it to end and try again",
            Self::Import { .. } => "import again when nothing writes to the directory",
            Self::GitMissing(_) => "install git",
            _ => return None,
        };
        Some(remedy.to_owned())
    }
}
