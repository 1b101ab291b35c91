//! Reflink copies: raw files that share data.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use agentiso_core::ports::{DiskError, DiskSource, DiskView, Disks, Extent, Freezing, Origin};
use rustix::fs::ioctl_ficlone;

use crate::bounds;
use crate::choose::{file_system_name, says_unsupported};
use crate::fiemap;
use crate::partial::Partial;

/// Disks as raw files, each a reflink copy of its source.
///
/// Needs a file system with reflinks, such as XFS or btrfs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reflinks;

impl Disks for Reflinks {
    fn create(&self, path: &Path, source: &DiskSource, size: u64) -> Result<(), DiskError> {
        let from = open_source(source, size)?;
        if path.symlink_metadata().is_ok() {
            return Err(DiskError::Exists(path.to_owned()));
        }
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::AlreadyExists => DiskError::Exists(path.to_owned()),
            _ => DiskError::Io { action: "create the disk", path: path.to_owned(), cause },
        };
        let partial = Partial::create(path).map_err(failed)?;
        ioctl_ficlone(partial.file(), &from).map_err(|error| clone_error(path, source, error.into()))?;
        partial.file().set_len(size).map_err(failed)?;
        partial.publish().map_err(failed)
    }

    fn name(&self) -> &'static str {
        "reflink"
    }

    fn qemu_format(&self) -> &'static str {
        "raw"
    }

    fn extension(&self) -> &'static str {
        "raw"
    }

    fn freezing(&self) -> Freezing {
        Freezing::Copy
    }

    fn parent(&self, path: &Path) -> Result<Option<DiskSource>, DiskError> {
        open_disk(path).map(|_| None)
    }

    /// Data that another disk has overwritten counts as shared until the host has written it back.
    fn own_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        sum(path, |piece| !piece.is_shared)
    }

    fn referenced_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        sum(path, |piece| piece.is_written)
    }

    /// Shared data is not freed. No disk depends on another.
    fn freed_by_removal(&self, path: &Path, children: &[PathBuf]) -> Result<u64, DiskError> {
        // Data that a child wrote counts as shared until it is allocated.
        for child in children {
            let (file, _) = open_disk(child)?;
            fiemap::settle(&file).map_err(measuring(child))?;
        }
        self.own_bytes(path)
    }

    fn collapse(&self, path: &Path, _onto: &DiskSource) -> Result<(), DiskError> {
        open_disk(path).map(|_| ())
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskView>, DiskError> {
        let (file, metadata) = open_disk(path)?;
        // Data that is not written back has no address yet, or that of the old data.
        fiemap::settle(&file).map_err(|cause| DiskError::Io {
            action: "open the disk",
            path: path.to_owned(),
            cause,
        })?;
        Ok(Box::new(View { file, size: metadata.len(), device: metadata.dev() }))
    }
}

/// An open disk.
struct View {
    file: File,
    size: u64,
    device: u64,
}

impl DiskView for View {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        bounds::check(self.size, offset, buffer.len() as u64)?;
        self.file.read_exact_at(buffer, offset)
    }

    fn extent_at(&self, offset: u64) -> io::Result<Extent> {
        let rest = bounds::rest(self.size, offset)?;
        let Some(piece) = fiemap::next(&self.file, offset, rest)? else {
            return Ok(Extent { origin: Origin::Zeros, length: rest });
        };
        let Some(inside) = offset.checked_sub(piece.offset) else {
            return Ok(Extent { origin: Origin::Zeros, length: rest.min(piece.offset - offset) });
        };
        let origin = match piece.address {
            Some(address) => Origin::Stored { place: u128::from(self.device), at: address + inside },
            None => Origin::Unknown,
        };
        let length = piece.length.checked_sub(inside).filter(|&length| length > 0).ok_or_else(senseless)?;
        Ok(Extent { origin, length: rest.min(length) })
    }
}

fn senseless() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the file system tells an extent that is not where it was asked for",
    )
}

fn open_source(source: &DiskSource, size: u64) -> Result<File, DiskError> {
    let bad = |reason: String| DiskError::BadSource { path: source.path().to_owned(), reason };
    let (file, metadata) = open_file(source.path()).map_err(|error| bad(error.to_string()))?;
    if !metadata.is_file() {
        return Err(bad("it is not a regular file".to_owned()));
    }
    if metadata.len() > size {
        return Err(DiskError::TooSmall { size, source_size: metadata.len() });
    }
    Ok(file)
}

fn open_disk(path: &Path) -> Result<(File, fs::Metadata), DiskError> {
    match open_file(path) {
        Ok((_, metadata)) if !metadata.is_file() => {
            Err(DiskError::BadDisk { path: path.to_owned(), reason: "it is not a regular file".to_owned() })
        }
        Ok(opened) => Ok(opened),
        Err(cause) => Err(DiskError::Io { action: "open the disk", path: path.to_owned(), cause }),
    }
}

fn open_file(path: &Path) -> io::Result<(File, fs::Metadata)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

fn clone_error(path: &Path, source: &DiskSource, cause: io::Error) -> DiskError {
    if cause.kind() == io::ErrorKind::CrossesDevices {
        return DiskError::OtherFileSystem { path: path.to_owned(), source_path: source.path().to_owned() };
    }
    if says_unsupported(&cause) {
        let dir = path.parent().unwrap_or(path).to_owned();
        return DiskError::NoReflinks { file_system: file_system_name(&dir), dir, cause };
    }
    DiskError::Io { action: "create the disk", path: path.to_owned(), cause }
}

fn sum(path: &Path, counts: impl Fn(&fiemap::Allocated) -> bool) -> Result<u64, DiskError> {
    let (file, metadata) = open_disk(path)?;
    let mut bytes = 0;
    fiemap::settle(&file)
        .and_then(|()| {
            fiemap::for_each(&file, metadata.len(), |piece| {
                if counts(&piece) {
                    bytes += piece.length;
                }
            })
        })
        .map_err(measuring(path))?;
    Ok(bytes)
}

fn measuring(path: &Path) -> impl Fn(io::Error) -> DiskError {
    move |cause| DiskError::Io { action: "measure the disk", path: path.to_owned(), cause }
}
