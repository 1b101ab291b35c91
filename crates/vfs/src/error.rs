//! Errors of vaults.

use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain};
use agentiso_store::{StoreError, TreePath};
use rusqlite::ErrorCode;

/// Why something could not be done with a vault. Names and paths are escaped in messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VfsError {
    /// No vault has that name or id.
    #[error("there is no vault {asked:?}")]
    VaultNotFound {
        /// The given name or id.
        asked: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// A vault of that name exists.
    #[error("there is a vault {name:?} already")]
    VaultExists {
        /// The name in use.
        name: String,
    },
    /// Commands are running in the vault.
    #[error("{runs} run(s) are in progress in the vault {name:?}")]
    VaultBusy {
        /// The vault.
        name: String,
        /// How many.
        runs: u64,
    },
    /// The name of a vault or checkpoint is not allowed.
    #[error("{kind} name {name:?} is not allowed: {reason}")]
    Name {
        /// What would be named.
        kind: &'static str,
        /// The name.
        name: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// No checkpoint has that name.
    #[error("the vault {vault:?} has no checkpoint {asked:?}")]
    CheckpointNotFound {
        /// The vault.
        vault: String,
        /// The given name.
        asked: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// The vault has a checkpoint of that name.
    #[error("the vault {vault:?} has a checkpoint {name:?} already")]
    CheckpointExists {
        /// The vault.
        vault: String,
        /// The name in use.
        name: String,
    },
    /// The checkpoint belongs to the vault that this one was forked from.
    #[error("the checkpoint {name:?} belongs to the vault {owner:?}")]
    CheckpointInherited {
        /// The checkpoint.
        name: String,
        /// The vault that has it.
        owner: String,
    },
    /// The history has no such version or revision.
    #[error("{what} has no {version}")]
    VersionNotFound {
        /// The vault or the path.
        what: String,
        /// What was asked for, for example "version 3".
        version: String,
    },
    /// There is nothing to undo or redo.
    #[error("there is nothing to {verb} in the vault {vault:?}")]
    NothingTo {
        /// "undo", "redo" or "revert".
        verb: &'static str,
        /// The vault.
        vault: String,
    },
    /// The path does not exist.
    #[error("{path} does not exist")]
    NotFound {
        /// The path.
        path: TreePath,
    },
    /// The path exists.
    #[error("{path} already exists")]
    Exists {
        /// The path.
        path: TreePath,
    },
    /// A part of the path is not a directory.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// The component.
        path: TreePath,
    },
    /// The path is a directory.
    #[error("{path} is a directory")]
    IsADirectory {
        /// The path.
        path: TreePath,
    },
    /// The path is neither a file nor a directory.
    #[error("{path} is not a regular file")]
    NotAFile {
        /// The path.
        path: TreePath,
    },
    /// The directory has entries.
    #[error("the directory {path} is not empty")]
    NotEmpty {
        /// The directory.
        path: TreePath,
    },
    /// Symbolic links lead in a circle, or through too many others.
    #[error("too many symbolic links at {path}")]
    LinkLoop {
        /// The path.
        path: TreePath,
    },
    /// A value is not allowed.
    #[error("{what}: {reason}")]
    Invalid {
        /// The value.
        what: String,
        /// The rule that it breaks.
        reason: String,
    },
    /// The file is larger than the operation reads.
    #[error("{path} has {size} bytes, and at most {max} are read")]
    TooLarge {
        /// The file.
        path: TreePath,
        /// Its size.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// A quota of the vault would be exceeded.
    #[error("the vault {vault:?} would have {would_be} {unit}, and {quota} allows {limit}")]
    QuotaExceeded {
        /// The vault.
        vault: String,
        /// The quota, for example "max_files".
        quota: &'static str,
        /// Its unit.
        unit: &'static str,
        /// The limit.
        limit: u64,
        /// What the vault or the file would have.
        would_be: u64,
    },
    /// A file would be larger than the vault allows.
    #[error("{path} would have {would_be} bytes, and max_file_size_mb of the vault {vault:?} allows {limit}")]
    FileQuota {
        /// The vault.
        vault: String,
        /// The file.
        path: TreePath,
        /// The limit.
        limit: u64,
        /// The size.
        would_be: u64,
    },
    /// The vaults have nothing in common.
    #[error("the vaults {source_name:?} and {target:?} have no common ancestor")]
    Unrelated {
        /// The source of the merge.
        source_name: String,
        /// Its target.
        target: String,
    },
    /// Other processes changed the vault all the time.
    #[error("the vault {name:?} was changed by others in each of {attempts} attempts")]
    Contended {
        /// The vault.
        name: String,
        /// How often it was attempted.
        attempts: usize,
    },
    /// The use of a vault has ended, or was ended by somebody else.
    #[error("the run {id} in the vault {name:?} has ended already")]
    UseEnded {
        /// The id of the use.
        id: uuid::Uuid,
        /// The vault.
        name: String,
    },
    /// The tree of a record cannot be read.
    #[error("{what} refers to data that is missing or damaged")]
    LostTree {
        /// The record.
        what: String,
        /// What the store says.
        #[source]
        source: StoreError,
    },
    /// A file of the host could not be read or written.
    #[error("could not {what} {}", shown(path))]
    Io {
        /// The failed step.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// A file or directory of the host is in the way.
    #[error("{} already exists", shown(path))]
    HostExists {
        /// The file.
        path: PathBuf,
    },
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The records were written by a newer program.
    #[error("{} has format {found}, and this program knows formats up to {known}", shown(path))]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest known format.
        known: i64,
    },
    /// The records are damaged.
    #[error("{} is damaged: {reason}", shown(path))]
    Records {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// SQLite reported an error.
    #[error("could not read or change the records{}", place(path))]
    Database {
        /// The file; empty until the error leaves the transaction.
        path: PathBuf,
        /// SQLite's error.
        #[source]
        source: rusqlite::Error,
    },
}

impl VfsError {
    pub(crate) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.as_ref().to_owned(), source }
    }

    pub(crate) fn os(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |error| Self::Io { what, path: path.as_ref().to_owned(), source: error.into() }
    }

    pub(crate) fn invalid(what: impl ToString, reason: impl ToString) -> Self {
        Self::Invalid { what: what.to_string(), reason: reason.to_string() }
    }

    /// Adds the path of the records and recognises damage.
    pub(crate) fn at(self, path: &Path) -> Self {
        match self {
            Self::Database { source, .. } if is_damage(&source) => {
                Self::Records { path: path.to_owned(), reason: source.to_string() }
            }
            Self::Database { source, .. } => Self::Database { path: path.to_owned(), source },
            other => other,
        }
    }
}

impl From<rusqlite::Error> for VfsError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Database { path: PathBuf::new(), source }
    }
}

/// Paths in a tree are errors of the vault, not of the store.
impl From<StoreError> for VfsError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { path } => Self::NotFound { path },
            StoreError::NotADirectory { path } => Self::NotADirectory { path },
            StoreError::NotAFile { path } => Self::NotAFile { path },
            StoreError::Invalid { what, reason } => Self::Invalid { what, reason },
            other => Self::Store(other),
        }
    }
}

impl Explain for VfsError {
    fn code(&self) -> Code {
        match self {
            Self::VaultNotFound { .. } => Code::VaultNotFound,
            Self::VaultExists { .. } => Code::VaultExists,
            Self::VaultBusy { .. } | Self::Contended { .. } => Code::VaultBusy,
            Self::CheckpointNotFound { .. } => Code::CheckpointNotFound,
            Self::CheckpointExists { .. } => Code::CheckpointExists,
            Self::VersionNotFound { .. } | Self::NothingTo { .. } => Code::VersionNotFound,
            Self::NotFound { .. } => Code::FileNotFound,
            Self::Exists { .. } | Self::HostExists { .. } => Code::FileExists,
            Self::NotADirectory { .. } => Code::NotADirectory,
            Self::IsADirectory { .. } | Self::NotAFile { .. } => Code::NotAFile,
            Self::NotEmpty { .. } => Code::DirectoryNotEmpty,
            Self::TooLarge { .. } => Code::FileTooLarge,
            Self::QuotaExceeded { .. } | Self::FileQuota { .. } => Code::QuotaExceeded,
            Self::Name { .. }
            | Self::Invalid { .. }
            | Self::LinkLoop { .. }
            | Self::Unrelated { .. }
            | Self::UseEnded { .. }
            | Self::CheckpointInherited { .. } => Code::InvalidArgument,
            Self::LostTree { .. } | Self::Records { .. } => Code::DataDamaged,
            Self::Io { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                Code::PermissionDenied
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => Code::FileNotFound,
            Self::Io { source, .. } => Code::of_io(source),
            Self::Store(error) => error.code(),
            Self::TooNew { .. } => Code::ToolTooOld,
            Self::Database { source, .. } => code_of(source),
        }
    }

    fn remedy(&self) -> Option<String> {
        let remedy = match self {
            Self::VaultNotFound { nearest: Some(name), .. }
            | Self::CheckpointNotFound { nearest: Some(name), .. } => {
                return Some(format!("did you mean {name:?}?"));
            }
            Self::VaultNotFound { .. } => "list the vaults, or create it",
            Self::VaultExists { .. } | Self::CheckpointExists { .. } => {
                "choose another name, or remove that one first"
            }
            Self::VaultBusy { .. } => "wait until the runs have ended, or force it",
            Self::Contended { .. } => "try again when fewer processes change the vault",
            Self::CheckpointNotFound { .. } => "list the checkpoints of the vault",
            Self::CheckpointInherited { .. } => "remove it from that vault",
            Self::VersionNotFound { .. } => "look at the log; older versions may have been pruned",
            Self::Exists { .. } => "choose another path, or allow it to be replaced",
            Self::HostExists { .. } => "give a path that does not exist, or allow it to be overwritten",
            Self::IsADirectory { .. } => {
                "give a file, or say that directories are meant with everything in them"
            }
            Self::NotEmpty { .. } => "remove it with everything in it, if that is what you want",
            Self::TooLarge { .. } => "read it in parts, or export it",
            Self::QuotaExceeded { .. } | Self::FileQuota { .. } => {
                "remove files, or raise the quota of the vault"
            }
            Self::Unrelated { .. } => "give the state that both began with as the base",
            Self::UseEnded { .. } => "begin again",
            Self::LostTree { .. } => "run fsck; it names what is affected and repairs what can be repaired",
            Self::TooNew { .. } => "use the newer program that wrote it",
            Self::Records { .. } => {
                "put a good copy of the file in its place; the stored files are not affected"
            }
            Self::Database { source, .. } if code_of(source) == Code::Timeout => {
                "another process is busy with the records; try again"
            }
            Self::Database { source, .. } if code_of(source) == Code::DiskFull => {
                "free some space and try again; nothing was changed"
            }
            Self::Io { .. } if self.code() == Code::DiskFull => {
                "free some space and try again; nothing was changed"
            }
            Self::Store(error) => return error.remedy(),
            _ => return None,
        };
        Some(remedy.to_owned())
    }
}

fn place(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!(" in {}", shown(path)) }
}

/// A path of the host without characters that could forge lines of a report.
fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}

fn code_of(error: &rusqlite::Error) -> Code {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Code::DiskFull,
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
            Code::PermissionDenied
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Code::Timeout,
        Some(ErrorCode::SystemIoFailure) => Code::Io,
        _ => Code::Internal,
    }
}

/// Whether SQLite reported damage, or a row has a value that is never written.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    let broken_file =
        matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase));
    let broken_row = matches!(
        error,
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)
    );
    broken_file || broken_row
}
