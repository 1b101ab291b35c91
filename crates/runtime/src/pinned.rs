//! Pinning the template files that workspaces depend on.
//!
//! A workspace cloned from a template, and every snapshot of it, reads through the template's memory and disk for as
//! long as it exists, while the template itself may be replaced or removed. A hard link keeps the files at no cost.
#![expect(clippy::disallowed_methods, reason = "called `in_place`, by the start of a machine")]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agentiso_core::DiskId;
use agentiso_core::ports::Freezing;
use agentiso_vmm::template::Template;
use uuid::Uuid;

use crate::Installation;

impl Installation {
    /// Pins a template's memory and returns the link.
    pub(crate) fn pin_memory(&self, template: &Template) -> io::Result<PathBuf> {
        let ram = template.ram();
        let name = self.paths.bases_dir().join(stamp(&ram)?);
        keep(&ram, &name)?;
        Ok(name)
    }

    /// Pins a template's disk and returns the link. Back ends that copy disks need no pin.
    pub(crate) fn pin_disk(&self, template: &Template) -> io::Result<PathBuf> {
        let disk = template.disk();
        if self.disks().freezing() == Freezing::Copy {
            return Ok(disk);
        }
        let name = self.disk_path(disk_id(&disk)?);
        keep(&disk, &name)?;
        Ok(name)
    }

    /// The file of a disk.
    pub(crate) fn disk_path(&self, id: DiskId) -> PathBuf {
        self.paths.disks_dir().join(format!("{id}.{}", self.disks().extension()))
    }
}

/// The disk that a file is named after.
pub(crate) fn disk_id_of(path: &Path) -> Option<DiskId> {
    let stem = path.file_stem()?.to_str()?;
    Uuid::try_parse(stem).ok().map(DiskId::from_uuid)
}

/// Whether a disk is the pinned disk of a template.
pub(crate) fn is_pinned(disk: DiskId) -> bool {
    disk.as_uuid().get_version() == Some(uuid::Version::Custom)
}

/// An id for a template's disk: stable for one template, different for one that was made again.
fn disk_id(path: &Path) -> io::Result<DiskId> {
    let digest = blake3::hash(stamp(path)?.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    Ok(DiskId::from_uuid(uuid::Builder::from_custom_bytes(bytes).into_uuid()))
}

fn stamp(path: &Path) -> io::Result<String> {
    let meta = fs::metadata(path)?;
    let key = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    Ok(format!("{key}-{}-{}", meta.ino(), meta.mtime()))
}

fn keep(file: &Path, name: &Path) -> io::Result<()> {
    match fs::hard_link(file, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(dir) = name.parent() {
                fs::create_dir_all(dir)?;
            }
            fs::hard_link(file, name)
        }
        other => other,
    }
}
