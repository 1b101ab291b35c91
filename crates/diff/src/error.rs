//! Why a disk could not be read or compared.

use std::io;

use agentiso_core::{Code, Explain};

/// Why a file system could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ext4Error {
    /// The disk could not be read.
    #[error("could not read the disk at byte {offset}")]
    Io {
        /// Byte offset on the disk.
        offset: u64,
        /// The error of the disk.
        #[source]
        source: io::Error,
    },
    /// The disk does not contain an ext4 file system.
    #[error("the disk does not contain an ext4 file system: {reason}")]
    NotExt4 {
        /// Which check failed.
        reason: &'static str,
    },
    /// The file system uses a feature that this reader does not support.
    #[error("the file system uses {feature}, which cannot be read from outside the machine")]
    Unsupported {
        /// The unsupported feature.
        feature: String,
    },
    /// The journal contains changes that cannot be replayed.
    #[error("the file system was not unmounted and its journal cannot be replayed here: {reason}")]
    NeedsRecovery {
        /// Why it cannot be replayed.
        reason: &'static str,
    },
    /// The file system is inconsistent.
    #[error("the file system is damaged: inode {inode}: {reason}")]
    Damaged {
        /// The inode; 0 for the file system as a whole.
        inode: u32,
        /// The inconsistency.
        reason: &'static str,
    },
    /// A limit was exceeded.
    #[error("the file system has more than {limit} {what}")]
    TooLarge {
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The path does not exist.
    #[error("{path} does not exist")]
    NotFound {
        /// The requested path.
        path: String,
    },
    /// The file, or one of its parents, has the wrong type.
    #[error("{path} is {found}, not {wanted}")]
    WrongType {
        /// The requested path.
        path: String,
        /// The actual type.
        found: &'static str,
        /// The expected type.
        wanted: &'static str,
    },
}

impl Explain for Ext4Error {
    fn code(&self) -> Code {
        match self {
            Self::Io { source, .. } => Code::of_io(source),
            Self::NotExt4 { .. } | Self::NeedsRecovery { .. } | Self::Damaged { .. } => Code::DataDamaged,
            Self::Unsupported { .. }
            | Self::TooLarge { .. }
            | Self::NotFound { .. }
            | Self::WrongType { .. } => Code::InvalidArgument,
        }
    }

    fn remedy(&self) -> Option<String> {
        let remedy = match self {
            Self::NeedsRecovery { .. } => "start the workspace once and stop it, then try again",
            Self::Damaged { .. } => "restore an older snapshot, or check the file system inside the machine",
            Self::TooLarge { .. } => "compare a smaller part of the tree",
            Self::WrongType { found: "a symbolic link", .. } => {
                "symbolic links are not followed: give the path of the target"
            }
            _ => return None,
        };
        Some(remedy.to_owned())
    }
}

/// Why two disks could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The first disk could not be read.
    #[error("could not read the older disk")]
    Before(#[source] Ext4Error),
    /// The second disk could not be read.
    #[error("could not read the newer disk")]
    After(#[source] Ext4Error),
    /// The path to compare exists on neither disk.
    #[error("{path} exists on neither disk")]
    NotFound {
        /// The requested path.
        path: String,
    },
}

impl DiffError {
    /// Describes the damage if it concerns a single place, so that the rest of the disk can be compared.
    pub(crate) fn damage(&self) -> Option<String> {
        let (disk, error) = match self {
            Self::Before(error) => ("before", error),
            Self::After(error) => ("after", error),
            Self::NotFound { .. } => return None,
        };
        match error {
            Ext4Error::Damaged { inode, reason } if *inode != 0 => {
                Some(format!("damaged on the disk {disk}: inode {inode}: {reason}"))
            }
            Ext4Error::Io { offset, source } => {
                Some(format!("not readable on the disk {disk}, at byte {offset}: {source}"))
            }
            _ => None,
        }
    }
}

impl Explain for DiffError {
    fn code(&self) -> Code {
        match self {
            Self::Before(error) | Self::After(error) => error.code(),
            Self::NotFound { .. } => Code::InvalidArgument,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Before(error) | Self::After(error) => error.remedy(),
            Self::NotFound { .. } => Some("give an absolute path in the machine".to_owned()),
        }
    }
}
