//! Keeping what lasting machines stand on for as long as they need it.
//!
//! Templates come and go; a machine that was cloned from one, and every snapshot of it, needs the template's memory
//! and disk for ever. A second name for the same file costs nothing and outlives the template.

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
    /// Keeps a template's memory, and returns its lasting name.
    pub(crate) fn hold_memory(&self, template: &Template) -> io::Result<PathBuf> {
        let ram = template.ram();
        let name = self.paths.bases_dir().join(stamp(&ram)?);
        keep(&ram, &name)?;
        Ok(name)
    }

    /// Keeps a template's disk, and returns its lasting name. Where disks are copies nothing needs to be kept.
    pub(crate) fn hold_disk(&self, template: &Template) -> io::Result<PathBuf> {
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

/// The id of the disk a file is called after.
pub(crate) fn disk_id_of(path: &Path) -> Option<DiskId> {
    let stem = path.file_stem()?.to_str()?;
    Uuid::try_parse(stem).ok().map(DiskId::from_uuid)
}

/// Whether a disk is a template's, kept for the machines that stand on it.
pub(crate) fn is_held(disk: DiskId) -> bool {
    disk.as_uuid().get_version() == Some(uuid::Version::Custom)
}

/// Names a file's content: the same template gives the same id, a template made anew another one.
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
