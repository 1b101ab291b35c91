//! Images at other sizes.

use std::fs::{self, File};
use std::path::PathBuf;

use agentiso_core::ImageName;

use super::pending::seal_file;
use super::{ImageStore, StoreError};
use crate::partial::PartialFile;
use crate::{ext4, sparse};

impl ImageStore {
    /// The raw, read-only disk of an image, with a file system of exactly `bytes`.
    ///
    /// Other sizes than the image's own are created once and stored beside it.
    pub fn sized_base(&self, name: &ImageName, bytes: u64) -> Result<PathBuf, StoreError> {
        let image = self.get(name)?;
        if bytes == image.meta.fs_bytes {
            return Ok(image.rootfs());
        }
        let sized = image.directory.join(format!("rootfs-{bytes}.raw"));
        if fs::metadata(&sized).is_ok_and(|found| found.len() == bytes) {
            return Ok(sized);
        }
        let io = || StoreError::io("make a resized copy of the image in", &image.directory);
        let mut copy = PartialFile::create(&image.directory, &format!("rootfs-{bytes}")).map_err(io())?;
        File::open(image.rootfs()).and_then(|from| sparse::copy(&from, copy.file())).map_err(io())?;
        ext4::resize(copy.path(), bytes).map_err(|source| StoreError::Sizing {
            name: name.to_string(),
            bytes,
            source,
        })?;
        seal_file(copy.path()).and_then(|()| copy.finish(&sized)).map_err(io())?;
        Ok(sized)
    }
}
