//! An image in progress.
//!
//! ```text
//! begin ──> filled by the caller ──> commit ──> visible, read-only
//!   │                                  │
//!   └── dropped or killed ──> removed <┘ on any error
//! ```

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agentiso_core::ImageName;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::images::{META, ROOTFS};
use super::{Image, ImageMeta, StoreError};
use crate::access;
use crate::partial::{PartialDir, sync_parent};

/// An image in progress. Dropping it removes it.
#[derive(Debug)]
pub struct PendingImage {
    partial: PartialDir,
    name: ImageName,
    target: PathBuf,
    replace: bool,
}

impl PendingImage {
    pub(super) fn new(partial: PartialDir, name: ImageName, target: PathBuf, replace: bool) -> Self {
        Self { partial, name, target, replace }
    }

    /// Its name.
    pub fn name(&self) -> &ImageName {
        &self.name
    }

    /// The path of its file system.
    pub fn rootfs(&self) -> PathBuf {
        self.partial.path().join(ROOTFS)
    }

    /// A directory for temporary files, which is removed when the image is finished.
    pub fn scratch(&self) -> Result<PathBuf, StoreError> {
        let path = self.partial.path().join("scratch");
        fs::create_dir_all(&path).map_err(StoreError::io("create", &path))?;
        Ok(path)
    }

    /// Makes the image durable, read-only and, atomically, visible.
    pub fn commit(self, meta: &ImageMeta) -> Result<Image, StoreError> {
        if meta.name != self.name {
            return Err(StoreError::Damaged {
                name: self.name.to_string(),
                reason: format!("it was described as {:?}", meta.name.as_str()),
            });
        }
        self.seal(meta).map_err(StoreError::io("finish the image in", self.partial.path()))?;
        self.publish().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => StoreError::exists(&self.name),
            _ => StoreError::io("publish the image as", &self.target)(error),
        })?;
        Ok(Image { meta: meta.clone(), directory: self.target.clone() })
    }

    fn seal(&self, meta: &ImageMeta) -> io::Result<()> {
        let directory = self.partial.path();
        match fs::remove_dir_all(directory.join("scratch")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::write(directory.join(META), meta.to_json()?)?;
        for file in [ROOTFS, META] {
            seal_file(&directory.join(file))?;
        }
        File::open(directory)?.sync_all()
    }

    fn publish(&self) -> io::Result<()> {
        let partial = self.partial.path();
        match renameat_with(CWD, partial, CWD, &self.target, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) if self.replace => {
                // The two are exchanged, so there is always an image of that name. Dropping `self` removes the old one.
                match renameat_with(CWD, partial, CWD, &self.target, RenameFlags::EXCHANGE) {
                    // Another process removed it, so there is nothing to replace.
                    Err(Errno::NOENT) => fs::rename(partial, &self.target)?,
                    done => done?,
                }
            }
            // A file system without these flags: a plain rename still refuses to replace a full directory.
            Err(Errno::INVAL | Errno::NOSYS) => {
                if self.replace && self.target.exists() {
                    let old = partial.with_extension("old.partial");
                    fs::rename(&self.target, &old)?;
                    fs::rename(partial, &self.target)?;
                    fs::remove_dir_all(old)?;
                } else {
                    fs::rename(partial, &self.target)?;
                }
            }
            done => done?,
        }
        sync_parent(&self.target)
    }
}

/// Makes a finished file durable and read-only, for its user and for QEMU.
pub(super) fn seal_file(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o400))?;
    access::share_file(path)?;
    File::open(path)?.sync_all()
}
