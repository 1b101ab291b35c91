//! Copy-on-write disks.

use std::path::{Path, PathBuf};

use crate::{Code, Explain};

/// What a new disk starts from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DiskSource {
    /// A raw image that nobody writes to any more.
    Raw(PathBuf),
    /// A frozen layer of the same back end.
    Layer(PathBuf),
}

impl DiskSource {
    /// The file underneath.
    pub fn path(&self) -> &Path {
        match self {
            Self::Raw(path) | Self::Layer(path) => path,
        }
    }
}

/// Makes copy-on-write disks. Cheap and quick: no call here may take longer than a few milliseconds.
pub trait Disks: Send + Sync {
    /// Creates a disk of `size` bytes at `path` that reads as `source` until it is written to.
    ///
    /// On failure nothing is left at `path`. An existing file is never overwritten.
    fn create(&self, path: &Path, source: &DiskSource, size: u64) -> Result<(), DiskError>;

    /// The back end's name, for reports.
    fn name(&self) -> &'static str;

    /// The format name QEMU opens a disk of this back end with.
    fn qemu_format(&self) -> &'static str;
}

/// Why a disk could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The disk exists already.
    #[error("the disk {} exists already", .0.display())]
    Exists(PathBuf),
    /// What the disk should start from cannot be used.
    #[error("the disk source {} cannot be used: {reason}", path.display())]
    BadSource {
        /// The source.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The size makes no sense for this source.
    #[error("a disk of {size} bytes is smaller than its source of {source_size} bytes")]
    TooSmall {
        /// Bytes asked for.
        size: u64,
        /// Bytes the source has.
        source_size: u64,
    },
    /// The file system refused.
    #[error("could not create the disk {}", path.display())]
    Io {
        /// The disk.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
}

impl Explain for DiskError {
    fn code(&self) -> Code {
        match self {
            Self::Exists(_) | Self::TooSmall { .. } => Code::InvalidArgument,
            Self::BadSource { .. } => Code::Io,
            Self::Io { cause, .. } => Code::of_io(cause),
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::BadSource { .. } => Some("build or import the image again".to_owned()),
            Self::TooSmall { .. } => Some("ask for a larger disk".to_owned()),
            Self::Io { cause, .. } if Code::of_io(cause) == Code::DiskFull => {
                Some("free space in the data directory".to_owned())
            }
            _ => None,
        }
    }
}
