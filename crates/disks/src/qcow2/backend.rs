//! qcow2 layers as a disk back end.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agentiso_core::ports::{DiskError, DiskSource, DiskView, Disks, Freezing};

use super::chain::Chain;
use super::collapse::collapse;
use super::header::Backing;
use super::layer::{Layer, Mapping, place};
use super::layout::{CLUSTER, TABLE_SPAN};
use super::writer::Writer;
use crate::partial::Partial;

/// Disks as qcow2 files, each backed by its source.
///
/// The files are written in process: running `qemu-img` would take longer than the rest of a start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Qcow2Layers;

impl Disks for Qcow2Layers {
    fn create(&self, path: &Path, source: &DiskSource, size: u64) -> Result<(), DiskError> {
        let backing = backing(source, size)?;
        if path.symlink_metadata().is_ok() {
            return Err(DiskError::Exists(path.to_owned()));
        }
        write_overlay(path, backing, size).map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => DiskError::Exists(path.to_owned()),
            _ => DiskError::Io { action: "create the disk", path: path.to_owned(), cause },
        })
    }

    fn name(&self) -> &'static str {
        "qcow2"
    }

    fn qemu_format(&self) -> &'static str {
        "qcow2"
    }

    fn extension(&self) -> &'static str {
        "qcow2"
    }

    fn freezing(&self) -> Freezing {
        Freezing::Overlay
    }

    fn parent(&self, path: &Path) -> Result<Option<DiskSource>, DiskError> {
        Layer::parent_at(path)
    }

    fn own_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        let metadata = fs::metadata(path).map_err(measuring(path))?;
        Ok(metadata.blocks() * 512)
    }

    fn referenced_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        Chain::open(path)?.stored_bytes().map_err(measuring(path))
    }

    fn freed_by_removal(&self, path: &Path, children: &[PathBuf]) -> Result<u64, DiskError> {
        match children {
            [] => self.own_bytes(path),
            [child] => {
                let (own, disk, child) = (self.own_bytes(path)?, Layer::open(path)?, Layer::open(child)?);
                check_parent(&child, &disk)?;
                Ok(own.saturating_sub(taken_over(&disk, &child).map_err(measuring(path))?))
            }
            _ => Ok(0),
        }
    }

    fn collapse(&self, path: &Path, onto: &DiskSource) -> Result<(), DiskError> {
        collapse(path, onto)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskView>, DiskError> {
        Ok(Box::new(Chain::open(path)?))
    }
}

fn measuring(path: &Path) -> impl Fn(io::Error) -> DiskError {
    move |cause| DiskError::Io { action: "measure the disk", path: path.to_owned(), cause }
}

fn write_overlay(path: &Path, backing: Backing, size: u64) -> io::Result<()> {
    let partial = Partial::create(path)?;
    Writer::new(partial.file(), size, Some(backing)).finish()?;
    partial.publish()
}

/// Checks the source and returns the overlay's header.
fn backing(source: &DiskSource, size: u64) -> Result<Backing, DiskError> {
    let bad = |reason: String| DiskError::BadSource { path: source.path().to_owned(), reason };
    let path = fs::canonicalize(source.path()).map_err(|error| bad(error.to_string()))?;
    let (source_size, is_layer) = match source {
        DiskSource::Raw(_) => (raw_size(&path), false),
        DiskSource::Layer(_) => (Layer::size_at(&path), true),
    };
    let source_size = source_size.map_err(|error| bad(error.to_string()))?;
    if source_size > size {
        return Err(DiskError::TooSmall { size, source_size });
    }
    Backing::new(&path, is_layer).map_err(bad)
}

fn raw_size(path: &Path) -> io::Result<u64> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() { Ok(metadata.len()) } else { Err(io::Error::other("it is not a regular file")) }
}

fn check_parent(child: &Layer, disk: &Layer) -> Result<(), DiskError> {
    let stands_on = child.parent().and_then(|parent| fs::metadata(parent.path()).ok());
    if stands_on.is_some_and(|metadata| place(&metadata) == disk.place()) {
        return Ok(());
    }
    Err(DiskError::NotAnAncestor { path: child.path().to_owned(), onto: disk.path().to_owned() })
}

/// Host bytes by which `child` would grow if `disk` were merged into it.
fn taken_over(disk: &Layer, child: &Layer) -> io::Result<u64> {
    let (mut offset, mut sum, mut counted_table) = (0, 0, None);
    while offset < disk.size() {
        let (mapping, length) = disk.mapping(offset, disk.size() - offset)?;
        let (above, length) = child.mapping(offset, length)?;
        if above == Mapping::Unallocated && mapping != Mapping::Unallocated {
            let table = offset / TABLE_SPAN;
            if !child.has_table(offset) && counted_table != Some(table) {
                counted_table = Some(table);
                sum += CLUSTER;
            }
            if matches!(mapping, Mapping::Data(_)) {
                sum += length.next_multiple_of(CLUSTER);
            }
        }
        offset += length;
    }
    Ok(sum)
}
