//! Errors of notes.

use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain};
use agentiso_store::StoreError;

use crate::conflict::Conflict;

/// Why something could not be done with a note.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotesError {
    /// Notes are turned off.
    #[error("notes are disabled")]
    Disabled,
    /// The path is malformed.
    #[error("{path:?} is not the path of a note: {reason}")]
    InvalidPath {
        /// The given path.
        path: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// A parameter is malformed.
    #[error("{what}: {reason}")]
    InvalidArgument {
        /// The parameter.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller may not use the path. Does not depend on whether it exists.
    #[error("{path:?} is not {right} here")]
    OutOfScope {
        /// The path.
        path: String,
        /// `readable` or `writable`.
        right: &'static str,
        /// The folders that are.
        allowed: Vec<String>,
    },
    /// There is no such note.
    #[error("there is no note {path:?}")]
    NotFound {
        /// The path.
        path: String,
        /// A note of a similar name.
        nearest: Option<String>,
    },
    /// There is no such folder.
    #[error("there is no folder {path:?}")]
    FolderNotFound {
        /// The path.
        path: String,
    },
    /// The path exists already.
    #[error("{path:?} exists already")]
    Exists {
        /// The path.
        path: String,
    },
    /// The path is a directory, a symbolic link or something else that is not a regular file.
    #[error("{path:?} is {kind}, not a note")]
    NotAFile {
        /// The path.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// The note is not UTF-8.
    #[error("{path:?} is not UTF-8 text; byte {at} is the first wrong one")]
    NotText {
        /// The path.
        path: String,
        /// Number of valid bytes before.
        at: usize,
    },
    /// The note is too large.
    #[error("{path:?} would have or has {size} bytes, and notes have at most {max}")]
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        size: u64,
        /// The limit.
        max: usize,
    },
    /// The note has changed since it was read. Nothing was changed now.
    #[error("{}", .0)]
    Conflict(Box<Conflict>),
    /// The front matter cannot be understood, or not be edited without touching more than the key.
    #[error("line {line} of {path:?}: {reason}")]
    FrontMatter {
        /// The path.
        path: String,
        /// The line of the note.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The note has no such heading.
    #[error("{path:?} has no heading {heading:?}")]
    HeadingNotFound {
        /// The path.
        path: String,
        /// The requested heading.
        heading: String,
        /// The first headings of the note.
        headings: Vec<String>,
    },
    /// Several headings of the note match.
    #[error("{path:?} has several headings {heading:?}, at lines {}", join(lines))]
    HeadingAmbiguous {
        /// The path.
        path: String,
        /// The requested heading.
        heading: String,
        /// Their lines.
        lines: Vec<usize>,
    },
    /// The text to replace does not occur.
    #[error("the text to replace does not occur in {path:?}")]
    TextNotFound {
        /// The path.
        path: String,
    },
    /// The note has no earlier version.
    #[error("{path:?} has no earlier version")]
    NoHistory {
        /// The path.
        path: String,
    },
    /// The note has no version of that number.
    #[error("{path:?} has no version {version}")]
    VersionNotFound {
        /// The path.
        path: String,
        /// The requested version.
        version: u64,
    },
    /// Another program changes the note all the time.
    #[error("another program keeps changing {path:?}")]
    Busy {
        /// The path.
        path: String,
    },
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
    /// SQLite reported an error.
    #[error("could not use {}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        #[source]
        source: rusqlite::Error,
    },
    /// The history is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The history was written by a newer program.
    #[error("{} has format {found}, and this program knows formats up to {known}", path.display())]
    TooNew {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest supported format.
        known: i64,
    },
    /// The store of old versions failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn join(lines: &[usize]) -> String {
    lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

impl NotesError {
    pub(crate) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.as_ref().to_owned(), source }
    }

    pub(crate) fn os(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |error| Self::Io { what, path: path.as_ref().to_owned(), source: error.into() }
    }

    pub(crate) fn invalid(what: &'static str, reason: impl ToString) -> Self {
        Self::InvalidArgument { what, reason: reason.to_string() }
    }

    pub(crate) fn database(path: &Path) -> impl Fn(rusqlite::Error) -> Self {
        move |source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                Self::Damaged { path: path.to_owned(), reason: source.to_string() }
            }
            _ => Self::Database { path: path.to_owned(), source },
        }
    }
}

impl Explain for NotesError {
    fn code(&self) -> Code {
        match self {
            Self::Disabled => Code::Unsupported,
            Self::InvalidPath { .. } | Self::InvalidArgument { .. } | Self::FrontMatter { .. } => {
                Code::InvalidArgument
            }
            Self::OutOfScope { .. } => Code::NotPermitted,
            Self::NotFound { .. }
            | Self::FolderNotFound { .. }
            | Self::NoHistory { .. }
            | Self::VersionNotFound { .. } => Code::NoteNotFound,
            Self::Exists { .. } => Code::FileExists,
            Self::NotAFile { .. } => Code::InvalidArgument,
            Self::NotText { .. } => Code::FileNotText,
            Self::TooLarge { .. } => Code::FileTooLarge,
            Self::Conflict(_) => Code::NoteConflict,
            Self::HeadingNotFound { .. } | Self::HeadingAmbiguous { .. } | Self::TextNotFound { .. } => {
                Code::EditMismatch
            }
            Self::Busy { .. } => Code::Timeout,
            Self::Io { source, .. } => Code::of_io(source),
            Self::Database { source, .. } => code_of(source),
            Self::Damaged { .. } => Code::DataDamaged,
            Self::TooNew { .. } => Code::ToolTooOld,
            Self::Store(error) => error.code(),
        }
    }

    fn remedy(&self) -> Option<String> {
        let remedy = match self {
            Self::Disabled => "set enabled = true in the section [vault] of the configuration".to_owned(),
            Self::InvalidPath { .. } => "give a path such as projects/plan.md".to_owned(),
            Self::OutOfScope { right, allowed, .. } if !allowed.is_empty() => {
                format!("{right} folders: {}", allowed.join(", "))
            }
            Self::NotFound { nearest: Some(nearest), .. } => format!("did you mean {nearest:?}?"),
            Self::NotFound { .. } | Self::FolderNotFound { .. } => {
                "list shows what exists; undo restores a note that was deleted".to_owned()
            }
            Self::Exists { .. } => "choose another path, or set overwrite".to_owned(),
            Self::NotText { .. } => "convert the file to UTF-8".to_owned(),
            Self::TooLarge { .. } => "split it into several notes that link to each other".to_owned(),
            Self::Conflict(conflict) => conflict.remedy(),
            Self::FrontMatter { .. } => {
                "correct the front matter with replace or write; the text of the note can be read as it is"
                    .to_owned()
            }
            Self::HeadingNotFound { headings, .. } if headings.is_empty() => {
                "the note has no headings; append to it instead".to_owned()
            }
            Self::HeadingNotFound { headings, .. } => format!("its headings: {}", headings.join(" | ")),
            Self::HeadingAmbiguous { .. } => {
                "name the headings above it too, separated by #, as in Plan#Risks".to_owned()
            }
            Self::TextNotFound { .. } => "read the note and copy the text from it".to_owned(),
            Self::NoHistory { .. } | Self::VersionNotFound { .. } => {
                "history lists the versions of a note".to_owned()
            }
            Self::Busy { .. } => "try again when the other program is done".to_owned(),
            Self::Io { .. } | Self::Database { .. } if self.code() == Code::DiskFull => {
                "free some space and try again".to_owned()
            }
            Self::Database { .. } if self.code() == Code::Timeout => {
                "another process is busy with the notes; try again".to_owned()
            }
            Self::Damaged { path, .. } => format!(
                "move {} away to go on without the versions before now; the notes themselves are plain files",
                path.display()
            ),
            Self::TooNew { .. } => "use the newer program that wrote it".to_owned(),
            Self::Store(error) => return error.remedy(),
            _ => return None,
        };
        Some(remedy)
    }
}

fn code_of(error: &rusqlite::Error) -> Code {
    use rusqlite::ErrorCode;
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
