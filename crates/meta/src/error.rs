//! Errors of the state database.

use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, DiskId, Explain, LabelError};
use rusqlite::ErrorCode;

/// Why the state could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// No workspace has that name or id.
    #[error("there is no workspace {asked:?}")]
    WorkspaceNotFound {
        /// The given name or id.
        asked: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// Several ids begin with these digits.
    #[error("{asked:?} could be any of the workspaces {}", matches.join(", "))]
    WorkspaceAmbiguous {
        /// The given digits.
        asked: String,
        /// The names of the matching workspaces.
        matches: Vec<String>,
    },
    /// The name is already in use.
    #[error("there is a workspace {name:?} already")]
    WorkspaceExists {
        /// The name in use.
        name: String,
    },
    /// The workspace has no such snapshot.
    #[error("there is no snapshot {asked:?}")]
    SnapshotNotFound {
        /// The given name.
        asked: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// The workspace already has a snapshot of that name.
    #[error("the workspace has a snapshot {name:?} already")]
    SnapshotExists {
        /// The name in use.
        name: String,
    },
    /// The labels of a workspace are invalid.
    #[error(transparent)]
    Labels(#[from] LabelError),
    /// The host port is already forwarded. Does not reveal which workspace it belongs to.
    #[error("port {host_port} of the host is already forwarded")]
    PortTaken {
        /// The host port.
        host_port: u16,
    },
    /// Another workspace has the address.
    #[error("the address {address} belongs to another workspace")]
    AddressTaken {
        /// The address.
        address: std::net::Ipv4Addr,
    },
    /// A text exceeds its limit.
    #[error("the {what} is longer than {max} {unit}")]
    TooLong {
        /// What the text is, for example "description".
        what: &'static str,
        /// The limit.
        max: usize,
        /// The unit of the limit.
        unit: &'static str,
    },
    /// A row does not exist although it should: a bug, or another command removed it.
    #[error("there is no {what} {id}")]
    Missing {
        /// The type of object.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// An object to be removed is still referenced.
    #[error("the {what} {id} is still needed")]
    Needed {
        /// The type of object.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// A frozen disk would be written to, or a writable one kept in a snapshot.
    #[error("the disk {disk} must be {wanted} for this")]
    WrongDisk {
        /// The disk.
        disk: DiskId,
        /// The required state of the disk.
        wanted: &'static str,
    },
    /// The database was written by a newer agentiso.
    #[error("{} has format {found}, and this agentiso knows formats up to {known}", path.display())]
    TooNew {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest supported format.
        known: i64,
    },
    /// The database is corrupt.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// The corruption.
        reason: String,
    },
    /// The start time of this process, which identifies it, could not be read.
    #[error("could not find out when this process started")]
    Owner(#[source] io::Error),
    /// The database file could not be created.
    #[error("could not create {}", path.display())]
    Create {
        /// The database.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// SQLite reported an error.
    #[error("could not read or change the state{}", place(path))]
    Database {
        /// The database; empty until the error leaves the transaction.
        path: PathBuf,
        /// SQLite's error.
        #[source]
        source: rusqlite::Error,
    },
}

impl MetaError {
    pub(crate) fn missing(what: &'static str, id: impl ToString) -> Self {
        Self::Missing { what, id: id.to_string() }
    }

    /// Rejects a text of more than `max` characters.
    pub(crate) fn require_short(what: &'static str, text: &str, max: usize) -> Result<(), Self> {
        // A character has at most four bytes, so longer texts need no counting.
        if text.len() > 4 * max || text.chars().count() > max {
            return Err(Self::TooLong { what, max, unit: "characters" });
        }
        Ok(())
    }

    pub(crate) fn damaged(path: &Path, reason: impl ToString) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.to_string() }
    }

    /// Adds the path of the database and recognises corruption.
    pub(crate) fn at(self, path: &Path) -> Self {
        match self {
            Self::Database { source, .. } if is_damage(&source) => Self::damaged(path, source),
            Self::Database { source, .. } => Self::Database { path: path.to_owned(), source },
            other => other,
        }
    }
}

impl From<rusqlite::Error> for MetaError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Database { path: PathBuf::new(), source }
    }
}

impl Explain for MetaError {
    fn code(&self) -> Code {
        match self {
            Self::WorkspaceNotFound { .. } => Code::WorkspaceNotFound,
            Self::WorkspaceAmbiguous { .. } | Self::TooLong { .. } => Code::InvalidArgument,
            Self::PortTaken { .. } => Code::PortUnavailable,
            Self::Labels(error) => error.code(),
            Self::WorkspaceExists { .. } => Code::WorkspaceExists,
            Self::SnapshotNotFound { .. } => Code::SnapshotNotFound,
            Self::SnapshotExists { .. } => Code::SnapshotExists,
            Self::Missing { what: "session", .. } => Code::SessionNotFound,
            Self::Missing { .. }
            | Self::Needed { .. }
            | Self::WrongDisk { .. }
            | Self::AddressTaken { .. } => Code::Internal,
            Self::TooNew { .. } => Code::ToolTooOld,
            Self::Damaged { .. } => Code::DataDamaged,
            Self::Create { source, .. } | Self::Owner(source) => Code::of_io(source),
            Self::Database { source, .. } => code_of(source),
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::WorkspaceNotFound { nearest: Some(name), .. } => Some(format!("did you mean {name:?}?")),
            Self::WorkspaceNotFound { .. } => Some(
                "list workspaces with workspace_list; an id can be shortened to 6 of its last 8 digits"
                    .to_owned(),
            ),
            Self::WorkspaceAmbiguous { .. } => Some("give the name, or more digits of the id".to_owned()),
            Self::WorkspaceExists { .. } | Self::SnapshotExists { .. } => {
                Some("choose another name, or remove that one first".to_owned())
            }
            Self::SnapshotNotFound { nearest: Some(name), .. } => Some(format!("did you mean {name:?}?")),
            Self::SnapshotNotFound { .. } => {
                Some("list the workspace's snapshots with snapshot_list".to_owned())
            }
            Self::Labels(error) => error.remedy(),
            Self::PortTaken { .. } => {
                Some("choose another host port, or leave it out to get a free one".to_owned())
            }
            Self::TooLong { what, max, unit } => Some(format!("give a {what} of at most {max} {unit}")),
            Self::TooNew { .. } => Some("use the newer agentiso that wrote it".to_owned()),
            Self::Damaged { path, .. } => Some(format!(
                "put a good copy of {} in its place; the disks themselves are not touched by this",
                path.display()
            )),
            Self::Owner(_) => Some("mount /proc".to_owned()),
            Self::Database { source, .. } if code_of(source) == Code::Timeout => {
                Some("another agentiso is busy with the state; try again".to_owned())
            }
            Self::Database { source, .. } if code_of(source) == Code::DiskFull => {
                Some("free some space and try again; nothing was changed".to_owned())
            }
            _ => None,
        }
    }
}

fn place(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!(" in {}", path.display()) }
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

/// Whether SQLite reported corruption, or a row contains a value that is never written.
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
