//! Copy-on-write disks.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{DiskView, ZpoolError};
use crate::{Code, Explain};

/// What a new disk starts from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DiskSource {
    /// A raw image that is no longer written to.
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

/// How a back end freezes what a machine's disk holds at an instant.
///
/// Either way the call is `create(fresh, DiskSource::Layer(active), size)`. The difference is which of the two files
/// the machine writes to afterwards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Freezing {
    /// The machine switches to the new disk; the old one is frozen.
    Overlay,
    /// The new disk is a frozen copy; the machine keeps the old one. The disk must not be written to meanwhile.
    Copy,
}

/// A back end for copy-on-write disks.
///
/// All disks of an installation are files in one flat directory, named by the caller. A disk is *writable* (used by one
/// machine) or *frozen* (never written again; snapshots and other disks are based on it). A disk cannot be read
/// consistently while it is written to: freeze it first, or pause and flush its machine.
///
/// Incomplete files are named [`partial_name`]. A file that a killed process left behind is replaced by the next call for
/// the same disk, and may be removed at any time before that.
///
/// Deleting the file deletes the disk. If the file only refers to storage elsewhere, [`Disks::sweep`] removes storage
/// whose file is missing.
pub trait Disks: Send + Sync {
    /// Creates a disk of `size` bytes at `path` that reads as `source` until it is written to, and as zeros beyond
    /// the end of `source`. Takes at most a few milliseconds.
    ///
    /// On failure nothing is left at `path`. An existing file is never overwritten.
    fn create(&self, path: &Path, source: &DiskSource, size: u64) -> Result<(), DiskError>;

    /// The back end's name, for reports.
    fn name(&self) -> &'static str;

    /// Identifies the storage. Disks can be based on each other only within one realm.
    fn realm(&self) -> String {
        self.name().to_owned()
    }

    /// The format name QEMU opens a disk of this back end with.
    fn qemu_format(&self) -> &'static str;

    /// What the names of this back end's disks end with, without the dot.
    fn extension(&self) -> &'static str;

    /// Which disk is the frozen one after a freeze.
    fn freezing(&self) -> Freezing;

    /// The parent of the disk, with an absolute path; `None` if it has no parent.
    fn parent(&self, path: &Path) -> Result<Option<DiskSource>, DiskError>;

    /// All ancestors of the disk, nearest first.
    fn below(&self, path: &Path) -> Result<Vec<PathBuf>, DiskError> {
        /// No valid chain is this long; a longer one contains a cycle.
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

    /// Bytes on the host that only this disk uses.
    fn own_bytes(&self, path: &Path) -> Result<u64, DiskError>;

    /// Bytes of stored guest data that can be read through the disk, wherever they are kept. Holes and zeros do not
    /// count.
    fn referenced_bytes(&self, path: &Path) -> Result<u64, DiskError>;

    /// Bytes on the host that removing the disk would free. `children` are all disks that are directly based on it. Without
    /// children, that is all of its data; with one child, all data that the child would not have to take over; with
    /// several, nothing, because the disk must stay. In back ends without chains it is the data that no other disk
    /// shares, and `children` are the disks that last shared it.
    fn freed_by_removal(&self, path: &Path, children: &[PathBuf]) -> Result<u64, DiskError>;

    /// Rewrites a frozen disk so that its content stays the same, but it is based directly on `onto`, one of its
    /// ancestors. Does nothing if that is the case already, or if the disk has no parent.
    ///
    /// The new disk is written beside the old one, made durable and renamed over it, so that any failure or kill
    /// leaves the old or the new one. Processes that have the old file open continue to read it. Takes as long as copying
    /// the data between the two; holes and zeros are kept.
    fn collapse(&self, path: &Path, onto: &DiskSource) -> Result<(), DiskError>;

    /// The usage of several disks, each with its children as in [`Disks::freed_by_removal`]. One call for all can be much
    /// faster than one call for each.
    fn usage(&self, disks: &[(PathBuf, Vec<PathBuf>)]) -> Result<Vec<DiskUsage>, DiskError> {
        let one = |(path, children): &(PathBuf, Vec<PathBuf>)| {
            let freed_by_removal = self.freed_by_removal(path, children)?;
            Ok(DiskUsage { freed_by_removal, referenced: self.referenced_bytes(path)? })
        };
        disks.iter().map(one).collect()
    }

    /// Prepares a copy of `source`, which is still being written to, at `path`, so that its machine is paused only
    /// briefly. Fails if it cannot be copied. `None` if [`Disks::create`] is fast enough by itself.
    fn prepare_copy(
        &self,
        _path: &Path,
        _source: &Path,
        _size: u64,
    ) -> Result<Option<Box<dyn DiskCopy>>, DiskError> {
        Ok(None)
    }

    /// Allows QEMU to open a disk as `user` (a user id and a group id), or as the current user. Must be called before
    /// every start, because the storage may have lost the permission since.
    fn admit(&self, path: &Path, user: Option<(u32, u32)>) -> Result<(), DiskError> {
        let Some((uid, gid)) = user else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(|cause| DiskError::Io {
            action: "hand over the disk",
            path: path.to_owned(),
            cause,
        })
    }

    /// Prepares a disk to be grown to `size` bytes by QEMU. QEMU can grow files itself; other storage is grown here. A
    /// disk of that size or larger is left unchanged.
    fn let_grow(&self, _path: &Path, _size: u64) -> Result<(), DiskError> {
        Ok(())
    }

    /// Removes the storage of disks whose files are missing. Storage that is in use is left for the next sweep.
    fn sweep(&self) -> Result<(), DiskError> {
        Ok(())
    }

    /// The state of the storage, if it is not the directory of the disks.
    fn storage_status(&self) -> Result<Option<StorageStatus>, DiskError> {
        Ok(None)
    }

    /// Opens a disk for reading, without a machine and without locks. The view stays valid when the disk or one of
    /// its ancestors is collapsed or removed meanwhile.
    fn open(&self, path: &Path) -> Result<Box<dyn DiskView>, DiskError>;
}

/// A copy of a disk in two steps. The machine must be paused only during the first. Dropping it before it is finished
/// leaves nothing behind.
pub trait DiskCopy: Send {
    /// Preserves the present content of the disk, which must not be written to meanwhile.
    fn hold(&mut self) -> Result<(), DiskError>;

    /// Makes the copy of the preserved content.
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

/// The state of the storage of disks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StorageStatus {
    /// Name, health and free space, for display.
    pub detail: String,
    /// What should be done about it, if anything.
    pub advice: Option<String>,
}

/// The name of the incomplete file of the disk `name`.
pub fn partial_name(name: &OsStr) -> OsString {
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(PARTIAL_SUFFIX);
    partial
}

/// Whether this is the name of an incomplete disk, in progress or abandoned.
pub fn is_partial_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") && name.ends_with(PARTIAL_SUFFIX.as_bytes())
}

const PARTIAL_SUFFIX: &str = ".partial";

/// Why something could not be done with a disk.
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
    /// No disk of this size can be kept.
    #[error("a disk of {size} bytes cannot be made: sizes are multiples of {unit} bytes")]
    BadSize {
        /// Bytes asked for.
        size: u64,
        /// What it must be a multiple of.
        unit: u64,
    },
    /// The pool that keeps the disks could not be used.
    #[error(transparent)]
    Pool(#[from] ZpoolError),
    /// The disk is not one this back end made or understands, or it is damaged.
    #[error("the disk {} cannot be used: {reason}", path.display())]
    BadDisk {
        /// The disk, or the file below it that is at fault.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A disk can only be collapsed onto one of its ancestors.
    #[error("the disk {} does not stand on {}", path.display(), onto.display())]
    NotAnAncestor {
        /// The disk.
        path: PathBuf,
        /// What it should have been collapsed onto.
        onto: PathBuf,
    },
    /// The file system cannot share data between files.
    #[error("{} is on {file_system}, which does not share data between files", dir.display())]
    NoReflinks {
        /// The directory for the disks.
        dir: PathBuf,
        /// The file system of the directory.
        file_system: String,
        /// The error of the attempt.
        #[source]
        cause: std::io::Error,
    },
    /// A copy that shares its data must be on the file system of what is copied.
    #[error("{} is on another file system than the disk {} that should share its data", source_path.display(), path.display())]
    OtherFileSystem {
        /// The disk that was to be made.
        path: PathBuf,
        /// What it should have started from.
        source_path: PathBuf,
    },
    /// The file system refused.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried, such as `create the disk`.
        action: &'static str,
        /// The file it concerns.
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
