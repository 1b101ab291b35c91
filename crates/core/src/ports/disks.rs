//! Copy-on-write disks.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{DiskView, ZpoolError};
use crate::{Code, Explain};

/// The source of a new disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DiskSource {
    /// A raw image that does not change any more.
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

/// How a back end freezes a machine's disk.
///
/// In both cases the call is `create(fresh, DiskSource::Layer(active), size)`; the difference is which of the two files
/// the machine writes to afterwards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Freezing {
    /// The machine switches to the new disk, and the old one is frozen.
    Overlay,
    /// The new disk is the frozen copy. The machine must not write while it is created.
    Copy,
}

/// A back end for copy-on-write disks. All methods block.
///
/// All disks of an installation are files in one flat directory, named by the caller. A disk is *writable* (used by one
/// machine) or *frozen* (never written again, but referred to by snapshots and other disks). No method reads a disk
/// consistently while it is written to: freeze it first, or pause and flush its machine.
///
/// A file in progress has the name [`partial_name`] until it is complete. One that a killed process left is replaced by
/// the next call for the same disk, and may be removed at any time before that.
///
/// Deleting the file deletes the disk. If the file only refers to storage elsewhere, [`Disks::sweep`] frees the storage
/// of deleted files.
pub trait Disks: Send + Sync {
    /// Creates a disk of `size` bytes at `path` that reads as `source` until it is written to, and as zeros beyond
    /// the end of `source`. Takes at most a few milliseconds.
    ///
    /// On failure nothing is left at `path`. An existing file is never overwritten.
    fn create(&self, path: &Path, source: &DiskSource, size: u64) -> Result<(), DiskError>;

    /// The back end's name, for reports.
    fn name(&self) -> &'static str;

    /// Identifies where disks are stored. Disks can be backing files of each other only within one realm.
    fn realm(&self) -> String {
        self.name().to_owned()
    }

    /// QEMU's name of the disk format.
    fn qemu_format(&self) -> &'static str;

    /// The file extension of disks, without the dot.
    fn extension(&self) -> &'static str;

    /// Which of the two disks is frozen after a freeze.
    fn freezing(&self) -> Freezing;

    /// The backing file of a disk, with an absolute path; `None` if it has none.
    fn parent(&self, path: &Path) -> Result<Option<DiskSource>, DiskError>;

    /// All backing files of a disk, nearest first.
    fn below(&self, path: &Path) -> Result<Vec<PathBuf>, DiskError> {
        /// The longest chain. A longer one is a cycle.
        const LONGEST: usize = 4096;
        let (mut below, mut at) = (Vec::new(), path.to_owned());
        while let Some(source) = self.parent(&at)? {
            below.push(source.path().to_owned());
            match source {
                DiskSource::Layer(next) if below.len() < LONGEST => at = next,
                DiskSource::Layer(_) => {
                    let reason = "it stands on itself".to_owned();
                    return Err(DiskError::BadDisk { path: path.to_owned(), reason });
                }
                DiskSource::Raw(_) => break,
            }
        }
        Ok(below)
    }

    /// Host bytes that only this disk uses.
    fn own_bytes(&self, path: &Path) -> Result<u64, DiskError>;

    /// Bytes of stored guest data in the disk and its backing files. Holes and zeros do not count.
    fn referenced_bytes(&self, path: &Path) -> Result<u64, DiskError>;

    /// Host bytes that removing the disk would free, where `children` are all disks with it as their backing file:
    /// everything it uses if there are none; without what the child would have to take over if there is one; nothing if
    /// there are more, because then it has to stay. For back ends without backing files it is what no other disk shares,
    /// and `children` are the disks that shared data with it last.
    fn freed_by_removal(&self, path: &Path, children: &[PathBuf]) -> Result<u64, DiskError>;

    /// Rewrites a frozen disk with the same content and `onto`, one of its indirect backing files, as its backing file.
    /// Does nothing if it is its backing file already, or if there is none.
    ///
    /// The new disk is written to another file, flushed and renamed over the old one, so that a failure leaves the old or
    /// the new one. Processes that have the old file open continue to read it. Takes as long as copying the layers in
    /// between; holes and zeros are kept.
    fn collapse(&self, path: &Path, onto: &DiskSource) -> Result<(), DiskError>;

    /// The usage of several disks, each with its children as in [`Disks::freed_by_removal`]. One call for many disks can
    /// be much faster.
    fn usage(&self, disks: &[(PathBuf, Vec<PathBuf>)]) -> Result<Vec<DiskUsage>, DiskError> {
        let one = |(path, children): &(PathBuf, Vec<PathBuf>)| {
            let freed_by_removal = self.freed_by_removal(path, children)?;
            Ok(DiskUsage { freed_by_removal, referenced: self.referenced_bytes(path)? })
        };
        disks.iter().map(one).collect()
    }

    /// Prepares a copy of `source`, which is still written to, so that the pause of its machine is short. Fails if it
    /// cannot be copied. `None` if preparing saves no time over [`Disks::create`].
    fn prepare_copy(
        &self,
        _path: &Path,
        _source: &Path,
        _size: u64,
    ) -> Result<Option<Box<dyn DiskCopy>>, DiskError> {
        Ok(None)
    }

    /// Lets QEMU open a disk, as `user` (a user and a group) or as the user of this process. Must be called before every
    /// start, because permissions of devices do not survive a reboot.
    fn admit(&self, path: &Path, user: Option<(u32, u32)>) -> Result<(), DiskError> {
        let Some((uid, gid)) = user else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(|cause| DiskError::Io {
            action: "hand over the disk",
            path: path.to_owned(),
            cause,
        })
    }

    /// Lets QEMU grow a disk to `size` bytes. QEMU can extend a file by itself, but not a volume. Does nothing if the disk
    /// has that size.
    fn let_grow(&self, _path: &Path, _size: u64) -> Result<(), DiskError> {
        Ok(())
    }

    /// Frees the storage of deleted disks. Storage in use is left for the next sweep.
    fn sweep(&self) -> Result<(), DiskError> {
        Ok(())
    }

    /// The status of the storage, if it is not the directory itself.
    fn storage_status(&self) -> Result<Option<StorageStatus>, DiskError> {
        Ok(None)
    }

    /// Opens a disk for reading, without a machine and without locks. The view stays valid if the disk or a backing file is
    /// rewritten or removed.
    fn open(&self, path: &Path) -> Result<Box<dyn DiskView>, DiskError>;
}

/// A copy of a disk in two steps, of which only the first needs its machine to be paused. Dropping it before it is
/// finished leaves nothing behind.
pub trait DiskCopy: Send {
    /// Freezes the current content. Nobody may write to the disk during the call.
    fn hold(&mut self) -> Result<(), DiskError>;

    /// Completes the copy.
    fn finish(self: Box<Self>) -> Result<(), DiskError>;
}

/// The usage of a disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DiskUsage {
    /// See [`Disks::freed_by_removal`].
    pub freed_by_removal: u64,
    /// See [`Disks::referenced_bytes`].
    pub referenced: u64,
}

/// The status of the storage of disks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StorageStatus {
    /// Its name, health and free space, for people.
    pub detail: String,
    /// What should be done about it, if anything.
    pub advice: Option<String>,
}

/// The name of a disk's file until it is complete.
pub fn partial_name(name: &OsStr) -> OsString {
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(PARTIAL_SUFFIX);
    partial
}

/// Whether a name is that of an incomplete disk.
pub fn is_partial_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") && name.ends_with(PARTIAL_SUFFIX.as_bytes())
}

const PARTIAL_SUFFIX: &str = ".partial";

/// Why an operation on a disk failed.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The disk exists already.
    #[error("the disk {} exists already", .0.display())]
    Exists(PathBuf),
    /// The source of the disk cannot be used.
    #[error("the disk source {} cannot be used: {reason}", path.display())]
    BadSource {
        /// The source.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The size is smaller than the source.
    #[error("a disk of {size} bytes is smaller than its source of {source_size} bytes")]
    TooSmall {
        /// Bytes asked for.
        size: u64,
        /// Bytes the source has.
        source_size: u64,
    },
    /// The back end does not support disks of this size.
    #[error("a disk of {size} bytes cannot be made: sizes are multiples of {unit} bytes")]
    BadSize {
        /// Bytes asked for.
        size: u64,
        /// What it must be a multiple of.
        unit: u64,
    },
    /// The zpool could not be used.
    #[error(transparent)]
    Pool(#[from] ZpoolError),
    /// The disk was not created by this back end, or it is damaged.
    #[error("the disk {} cannot be used: {reason}", path.display())]
    BadDisk {
        /// The disk, or the backing file that is at fault.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A disk can only be collapsed onto one of its backing files.
    #[error("the disk {} does not stand on {}", path.display(), onto.display())]
    NotAnAncestor {
        /// The disk.
        path: PathBuf,
        /// The requested backing file.
        onto: PathBuf,
    },
    /// The file system cannot share data between files.
    #[error("{} is on {file_system}, which does not share data between files", dir.display())]
    NoReflinks {
        /// The directory for the disks.
        dir: PathBuf,
        /// The name of the file system.
        file_system: String,
        /// The error of the attempt.
        #[source]
        cause: std::io::Error,
    },
    /// A reflink copy must be on the same file system as its source.
    #[error("{} is on another file system than the disk {} that should share its data", source_path.display(), path.display())]
    OtherFileSystem {
        /// The disk to create.
        path: PathBuf,
        /// Its source.
        source_path: PathBuf,
    },
    /// A file operation failed.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was attempted, such as `create the disk`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        cause: std::io::Error,
    },
}

impl Explain for DiskError {
    fn code(&self) -> Code {
        match self {
            Self::Exists(_) | Self::TooSmall { .. } | Self::BadSize { .. } => Code::InvalidArgument,
            Self::Pool(error) => error.code(),
            Self::NoReflinks { .. } | Self::OtherFileSystem { .. } => Code::InvalidConfig,
            Self::BadSource { .. } => Code::Io,
            Self::BadDisk { .. } => Code::DataDamaged,
            Self::NotAnAncestor { .. } => Code::Internal,
            Self::Io { cause, .. } => Code::of_io(cause),
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::BadSource { .. } => Some("build or import the image again".to_owned()),
            Self::Pool(error) => error.remedy(),
            Self::TooSmall { .. } => Some("ask for a larger disk".to_owned()),
            Self::NoReflinks { .. } => Some(
                "put the data directory on XFS (made with reflink=1) or btrfs, or use qcow2 disks".to_owned(),
            ),
            Self::OtherFileSystem { .. } => {
                Some("keep images and disks on one file system, or use qcow2 disks".to_owned())
            }
            Self::Io { cause, .. } if Code::of_io(cause) == Code::DiskFull => {
                Some("free space in the data directory".to_owned())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_name_is_told_from_any_disks_name() {
        assert!(is_partial_name(&partial_name(OsStr::new("a.qcow2"))));
        assert!(!is_partial_name(OsStr::new("a.partial")));
        assert!(!is_partial_name(OsStr::new("a.qcow2")));
    }
}
