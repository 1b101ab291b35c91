//! Images as volumes: a volume can only be cloned from a volume, so each image is copied to one, once.
//!
//! ```text
//! .zfs/bases/KEY/disk   the link to the volume, created when the copy is complete
//! .zfs/bases/KEY/image  the path of the image
//! ```

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agentiso_core::ports::{DiskError, ZpoolError};
use rustix::fs::FlockOperation;

use super::backend::{BLOCK, Zvols};
use super::lock::lock;
use super::name::Volume;
use super::node;
use crate::sparse;

const DISK: &str = "disk";
const IMAGE: &str = "image";

impl Zvols {
    /// The volume of an image, created if there is none.
    pub(super) fn base_of(
        &self,
        image: &Path,
        file: &File,
        metadata: &Metadata,
    ) -> Result<Volume, DiskError> {
        let key = key(metadata);
        let entry = self.bases().join(&key);
        let failed = |cause| DiskError::Io { action: "import the image", path: image.to_owned(), cause };
        if let Some(volume) = self.named_by(&entry.join(DISK)).map_err(failed)? {
            return Ok(volume);
        }
        fs::create_dir_all(&entry).map_err(failed)?;
        let _turn = lock(&self.bases().join("lock"), FlockOperation::LockExclusive).map_err(failed)?;
        if let Some(made_meanwhile) = self.named_by(&entry.join(DISK)).map_err(failed)? {
            return Ok(made_meanwhile);
        }
        let full_path = image.canonicalize().map_err(failed)?;
        fs::write(entry.join(IMAGE), full_path.as_os_str().as_bytes()).map_err(failed)?;
        self.import(&entry.join(DISK), &format!("base-{key}"), file, metadata, image)
    }

    fn import(
        &self,
        link: &Path,
        stem: &str,
        file: &File,
        metadata: &Metadata,
        image: &Path,
    ) -> Result<Volume, DiskError> {
        self.ready(metadata.blocks() * 512)?;
        let failed = |cause: io::Error| match cause.kind() {
            // A device reports a full zpool only as an I/O error.
            io::ErrorKind::StorageFull => ZpoolError::Full {
                name: self.dataset.as_str().to_owned(),
                free: 0,
                needed: metadata.blocks() * 512,
            }
            .into(),
            _ => DiskError::Io { action: "import the image", path: image.to_owned(), cause },
        };
        let size = metadata.len().div_ceil(BLOCK) * BLOCK;
        let new = self.begin(link, stem)?;
        new.make(size.max(BLOCK), BLOCK)?;
        let target = node::open(&self.dataset, new.volume(), OpenOptions::new().write(true))?;
        sparse::copy(file, 0, &target, 0, metadata.len()).and_then(|()| target.sync_all()).map_err(failed)?;
        drop(target);
        new.publish()
    }

    /// Removes the links of images that no longer exist.
    pub(super) fn forget_bases(&self) -> io::Result<()> {
        let entries = match fs::read_dir(self.bases()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() && !is_needed(&entry.path()) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn bases(&self) -> PathBuf {
        self.notes.dir().join("bases")
    }
}

fn is_needed(entry: &Path) -> bool {
    let Ok(image) = fs::read(entry.join(IMAGE)) else { return false };
    let metadata = fs::metadata(Path::new(std::ffi::OsStr::from_bytes(&image)));
    metadata.is_ok_and(|metadata| entry.file_name().is_some_and(|name| *name == *key(&metadata)))
}

/// Identifies an image file, and distinguishes it from an earlier file at the same path.
fn key(metadata: &Metadata) -> String {
    format!("{:x}-{:x}-{:x}.{:x}", metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}
