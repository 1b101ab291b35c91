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
        /// Where on the disk.
        offset: u64,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// There is no ext4 file system on the disk.
    #[error("the disk holds no ext4 file system: {reason}")]
    NotExt4 {
        /// What gave it away.
        reason: &'static str,
    },
    /// The file system uses something we cannot read.
    #[error("the file system uses {feature}, which cannot be read from outside the machine")]
    Unsupported {
        /// What it uses.
        feature: String,
    },
    /// The journal holds changes that cannot be read from outside.
    #[error("the file system was not unmounted and its journal cannot be replayed here: {reason}")]
    NeedsRecovery {
        /// Why not.
        reason: &'static str,
    },
    /// Something in the file system contradicts itself.
    #[error("the file system is damaged: inode {inode}: {reason}")]
    Damaged {
        /// Where; 0 stands for the file system as a whole.
        inode: u32,
        /// What is wrong.
        reason: &'static str,
    },
    /// A limit was reached.
    #[error("the file system has more than {limit} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: u64,
    },
    /// Nothing is there.
    #[error("there is no {path}")]
    NotFound {
        /// What was asked for.
        path: String,
    },
    /// Something on the way to a file, or the file itself, has the wrong type.
    #[error("{path} is {found}, not {wanted}")]
    WrongType {
        /// What was asked for.
        path: String,
        /// What is there.
        found: &'static str,
        /// What should be there.
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
                "links are not followed: give the path it leads to"
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
    #[error("could not read the disk as it was before")]
    Before(#[source] Ext4Error),
    /// The second disk could not be read.
    #[error("could not read the disk as it was after")]
    After(#[source] Ext4Error),
    /// The part of the tree to compare is on neither disk.
    #[error("there is no {path} on either disk")]
    NotFound {
        /// What was asked for.
        path: String,
    },
}

impl DiffError {
    /// What is wrong with one place of one disk, if that is all: the rest of the disk can be compared.
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
            Self::NotFound { .. } => Some("give an absolute path of the machine".to_owned()),
        }
    }
}
