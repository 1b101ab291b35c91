//! Copy-on-write disks.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{DiskView, ZpoolError};
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

/// How a back end freezes what a machine's disk holds at an instant.
///
/// Either way the call is `create(fresh, DiskSource::Layer(active), size)`; what differs is which of the two files
/// goes on being written to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Freezing {
    /// The writer moves to the new disk, the old one is frozen.
    Overlay,
    /// The new disk is the frozen copy, the writer stays. Nobody may write while it is made.
    Copy,
}

/// Makes copy-on-write disks and keeps house among them.
///
/// All disks of an installation are files of one flat directory, named by the caller. A disk is *writable* (one
/// machine's) or *frozen* (never written again; snapshots and other disks stand on it). No call reads a disk
/// consistently while somebody writes to it: freeze it first, or see to it that its machine is paused and flushed.
///
/// Files being made are called [`partial_name`] until they are whole; one left by a killed process is replaced by
/// the next call for the same disk and may be removed at any time in between.
///
/// A disk goes away with its file. Where the file is only the name of something kept elsewhere, [`Disks::sweep`]
/// removes what has lost its name.
pub trait Disks: Send + Sync {
    /// Creates a disk of `size` bytes at `path` that reads as `source` until it is written to, and as zeros beyond
    /// the end of `source`. Takes at most a few milliseconds.
    ///
    /// On failure nothing is left at `path`. An existing file is never overwritten.
    fn create(&self, path: &Path, source: &DiskSource, size: u64) -> Result<(), DiskError>;

    /// The back end's name, for reports.
    fn name(&self) -> &'static str;

    /// Tells disks that can stand on each other from those of the same back end in another place.
    fn realm(&self) -> String {
        self.name().to_owned()
    }

    /// The format name QEMU opens a disk of this back end with.
    fn qemu_format(&self) -> &'static str;

    /// What the names of this back end's disks end with, without the dot.
    fn extension(&self) -> &'static str;

    /// Which disk is the frozen one after a freeze.
    fn freezing(&self) -> Freezing;

    /// What the disk reads through now, `None` if it stands alone. The path is absolute.
    fn parent(&self, path: &Path) -> Result<Option<DiskSource>, DiskError>;

    /// Everything the disk reads through, nearest first.
    fn below(&self, path: &Path) -> Result<Vec<PathBuf>, DiskError> {
        /// No chain is as long; one that is goes round in circles.
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

    /// Host bytes that this disk takes and shares with no other.
    fn own_bytes(&self, path: &Path) -> Result<u64, DiskError>;

    /// Bytes of stored guest data that can be read through the disk, wherever they are kept. Holes and zeros do not
    /// count.
    fn referenced_bytes(&self, path: &Path) -> Result<u64, DiskError>;

    /// Host bytes that would come back if the disk went away, where `children` are all disks that stand directly on
    /// it: everything it takes if there are none; if there is one, everything but what that child would have to
    /// take over; nothing if there are more, because then the disk has to stay. Where no disk stands on another,
    /// it is what no other disk shares, and `children` are those that shared it last.
    fn freed_by_removal(&self, path: &Path, children: &[PathBuf]) -> Result<u64, DiskError>;

    /// Rewrites a disk that nobody writes to so that it reads the same but stands directly on `onto`, one of its
    /// ancestors. Nothing happens if it stands there already, or alone.
    ///
    /// The new disk is written beside the old one, made durable and renamed over it, so that any failure or kill
    /// leaves the old or the new one. Whoever has the old file open goes on reading it. Takes as long as copying
    /// what is between the two; holes and zeros stay such.
    fn collapse(&self, path: &Path, onto: &DiskSource) -> Result<(), DiskError>;

    /// What several disks take and hold, each with what [`Disks::freed_by_removal`] wants to know of it; asked at
    /// once because that can save much.
    fn usage(&self, disks: &[(PathBuf, Vec<PathBuf>)]) -> Result<Vec<DiskUsage>, DiskError> {
        let one = |(path, children): &(PathBuf, Vec<PathBuf>)| {
            let freed_by_removal = self.freed_by_removal(path, children)?;
            Ok(DiskUsage { freed_by_removal, referenced: self.referenced_bytes(path)? })
        };
        disks.iter().map(one).collect()
    }

    /// Does what can be done before `source`, which is still written to, is copied to `path`, so that its machine need
    /// not stand still meanwhile. Fails if it cannot be copied. `None`: [`Disks::create`] takes no longer.
    fn prepare_copy(
        &self,
        _path: &Path,
        _source: &Path,
        _size: u64,
    ) -> Result<Option<Box<dyn DiskCopy>>, DiskError> {
        Ok(None)
    }

    /// Sees to it that QEMU can open a disk, as `user`, a user and a group, or as whoever we are. Has to be called
    /// before every start: what keeps the disk may have forgotten since.
    fn admit(&self, path: &Path, user: Option<(u32, u32)>) -> Result<(), DiskError> {
        let Some((uid, gid)) = user else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(|cause| DiskError::Io {
            action: "hand over the disk",
            path: path.to_owned(),
            cause,
        })
    }

    /// Lets QEMU lengthen a disk to `size` bytes when it is told to: a file it can by itself, but what else keeps disks
    /// has to be asked. One that is as long already is left as it is.
    fn let_grow(&self, _path: &Path, _size: u64) -> Result<(), DiskError> {
        Ok(())
    }

    /// Removes what was kept for disks whose files are gone; what is in use stays for the next time.
    fn sweep(&self) -> Result<(), DiskError> {
        Ok(())
    }

    /// How the place stands in which disks are kept, if it is not the directory they are in.
    fn storage_status(&self) -> Result<Option<StorageStatus>, DiskError> {
        Ok(None)
    }

    /// Opens a disk for reading, without a machine and without locks. The view stays valid when the disk or one of
    /// its ancestors is collapsed or removed meanwhile.
    fn open(&self, path: &Path) -> Result<Box<dyn DiskView>, DiskError>;
}

/// A copy of a disk in two steps, of which only the first needs its machine to stand still. Dropped before it is
/// finished, it leaves nothing.
pub trait DiskCopy: Send {
    /// Holds on to what the disk has now. Nobody may write to it meanwhile.
    fn hold(&mut self) -> Result<(), DiskError>;

    /// Makes the copy of what was held.
    fn finish(self: Box<Self>) -> Result<(), DiskError>;
}

/// What a disk takes and holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DiskUsage {
    /// See [`Disks::freed_by_removal`].
    pub freed_by_removal: u64,
    /// See [`Disks::referenced_bytes`].
    pub referenced: u64,
}

/// How a place stands in which disks are kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StorageStatus {
    /// The place, its health and its free space, for people.
    pub detail: String,
    /// What should be done about it, if anything.
    pub advice: Option<String>,
}

/// What the file of the disk called `name` is called while it is being made.
pub fn partial_name(name: &OsStr) -> OsString {
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(PARTIAL_SUFFIX);
    partial
}

/// Whether a file of this name is a disk that was never finished, if nobody is making it right now.
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
    /// A disk can only be collapsed onto something it stands on.
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
        /// What it is on.
        file_system: String,
        /// What the attempt ended with.
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
        /// What with.
        path: PathBuf,
        /// Why.
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
