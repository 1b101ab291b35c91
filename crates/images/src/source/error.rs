//! Errors of sources.

use std::io;

use agentiso_core::{Code, Explain};

/// Why a source could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A file of the host could not be read or written.
    #[error("could not {doing} {what}")]
    Io {
        /// What we were doing.
        doing: &'static str,
        /// To what.
        what: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// An entry is unsafe or invalid.
    #[error("{origin} was rejected: the entry {entry:?} cannot be accepted: {reason}")]
    Entry {
        /// The archive, directory or reference.
        origin: String,
        /// The entry's path.
        entry: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The source as a whole is unsafe or invalid.
    #[error("{origin} was rejected: {reason}")]
    Rejected {
        /// The archive, directory or reference.
        origin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is damaged or truncated.
    #[error("{origin} is damaged or incomplete")]
    Corrupt {
        /// The archive or reference.
        origin: String,
        /// What was found.
        #[source]
        source: io::Error,
    },
    /// Its files do not fit.
    #[error("{origin} has more than {limit} bytes of files")]
    TooLarge {
        /// The archive, directory or reference.
        origin: String,
        /// How much was allowed.
        limit: u64,
    },
    /// The sink could not write an entry.
    #[error("could not write {entry:?} to the image")]
    Sink {
        /// The entry's path.
        entry: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A registry could not be reached or refused the request.
    #[error("could not pull {reference}: {reason}")]
    Fetch {
        /// The reference.
        reference: String,
        /// What the registry or the network said.
        reason: String,
        /// What to do, where we know.
        hint: Option<&'static str>,
    },
    /// An invalid reference.
    #[error("{reference:?} is not a valid image reference: {reason}")]
    Reference {
        /// What was given.
        reference: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl SourceError {
    pub(crate) fn io(doing: &'static str, what: impl ToString) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_string();
        move |source| Self::Io { doing, what, source }
    }

    pub(crate) fn rejected(origin: &str, reason: impl Into<String>) -> Self {
        Self::Rejected { origin: origin.to_owned(), reason: reason.into() }
    }

    pub(crate) fn corrupt(origin: &str) -> impl Fn(io::Error) -> Self + use<> {
        let origin = origin.to_owned();
        move |source| Self::Corrupt { origin: origin.clone(), source }
    }
}

impl Explain for SourceError {
    fn code(&self) -> Code {
        match self {
            Self::Io { source, .. } | Self::Sink { source, .. } => Code::of_io(source),
            Self::Entry { .. } | Self::Rejected { .. } | Self::Corrupt { .. } | Self::TooLarge { .. } => {
                Code::ImageRejected
            }
            Self::Fetch { .. } => Code::FetchFailed,
            Self::Reference { .. } => Code::InvalidArgument,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::TooLarge { .. } => Some("give the image a larger file system".to_owned()),
            Self::Corrupt { .. } => Some("fetch or pack it again".to_owned()),
            Self::Fetch { hint, .. } => hint.map(str::to_owned),
            Self::Reference { .. } => Some("write it as name:tag or host:port/name:tag".to_owned()),
            Self::Sink { .. } | Self::Io { .. } if self.code() == Code::DiskFull => {
                Some("free some disk space or give the image a larger file system".to_owned())
            }
            _ => None,
        }
    }
}
