//! Errors of mounts.

use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain};
use agentiso_store::StoreError;

/// Why a tree could not be shown as a directory, or its changes not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
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
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A live process uses it.
    #[error("{what} is in use")]
    Busy {
        /// What is in use.
        what: String,
    },
    /// It does not exist.
    #[error("{what} does not exist")]
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// This host cannot do it.
    #[error("{what} is not possible here: {reason}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        reason: String,
    },
    /// A value is not allowed.
    #[error("{what}: {reason}")]
    Invalid {
        /// The rejected value.
        what: String,
        /// The rule it breaks.
        reason: String,
    },
    /// A record of ours is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The process that serves a mount failed.
    #[error("could not mount {}: {reason}", point.display())]
    Mount {
        /// The mount point.
        point: PathBuf,
        /// What it said.
        reason: String,
    },
}

impl MountError {
    pub(crate) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.as_ref().to_owned(), source }
    }

    pub(crate) fn os(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |error| Self::Io { what, path: path.as_ref().to_owned(), source: error.into() }
    }

    pub(crate) fn is_permission_denied(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    pub(crate) fn invalid(what: impl ToString, reason: impl ToString) -> Self {
        Self::Invalid { what: what.to_string(), reason: reason.to_string() }
    }

    pub(crate) fn damaged(path: impl AsRef<Path>, reason: impl ToString) -> Self {
        Self::Damaged { path: path.as_ref().to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn busy(what: impl ToString) -> Self {
        Self::Busy { what: what.to_string() }
    }
}

impl Explain for MountError {
    fn code(&self) -> Code {
        match self {
            Self::Io { source, .. } => Code::of_io(source),
            Self::Store(error) => error.code(),
            Self::Busy { .. } => Code::WorkspaceBusy,
            Self::NotFound { .. } => Code::FileNotFound,
            Self::Unsupported { .. } => Code::Unsupported,
            Self::Invalid { .. } => Code::InvalidArgument,
            Self::Damaged { .. } => Code::DataDamaged,
            Self::Mount { .. } => Code::Io,
        }
    }

    fn remedy(&self) -> Option<String> {
        let remedy = match self {
            Self::Io { .. } if self.code() == Code::DiskFull => {
                "free some space and try again; the changes are still in the writable layer"
            }
            Self::Store(error) => return error.remedy(),
            Self::Busy { .. } => "wait until the process that uses it has ended, and try again",
            Self::Unsupported { .. } => "use a plain directory, which works everywhere",
            Self::Damaged { .. } => "keep the directory beside it: it still has the changed files",
            Self::Mount { .. } => "check that fuse3 is installed and that you may use /dev/fuse",
            _ => return None,
        };
        Some(remedy.to_owned())
    }
}
