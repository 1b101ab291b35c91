//! Finding, listing and removing images.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentiso_core::ImageName;

use super::{ImageMeta, PendingImage, StoreError};
use crate::partial::{self, PartialDir};

pub(super) const ROOTFS: &str = "rootfs.raw";
pub(super) const META: &str = "image.json";
/// The largest `image.json` that is read.
const META_MAX: u64 = 1 << 20;

/// The images of an installation.
#[derive(Clone, Debug)]
pub struct ImageStore {
    root: PathBuf,
}

/// An image in the store.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its metadata.
    pub meta: ImageMeta,
    /// Its directory.
    pub directory: PathBuf,
}

impl Image {
    /// Its root file system, a raw ext4 image that is never written again.
    pub fn rootfs(&self) -> PathBuf {
        self.directory.join(ROOTFS)
    }
}

impl ImageStore {
    /// Opens the store, creating its directory and removing partial images of killed processes.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        fs::create_dir_all(&root).map_err(StoreError::io("create the image store", &root))?;
        // Disks and templates store the paths of images, which must not depend on symbolic links.
        let root = fs::canonicalize(&root).map_err(StoreError::io("find", &root))?;
        let store = Self { root };
        let tidy = StoreError::io("tidy the image store", &store.root);
        partial::sweep(&store.root)
            .and_then(|()| store.names()?.iter().try_for_each(|name| partial::sweep(&store.directory(name))))
            .map_err(tidy)?;
        Ok(store)
    }

    /// All usable images, sorted by name.
    pub fn list(&self) -> Result<Vec<Image>, StoreError> {
        let names = self.names().map_err(StoreError::io("read", &self.root))?;
        let mut images = Vec::with_capacity(names.len());
        for name in names {
            match self.read(&name) {
                Ok(Some(image)) => images.push(image),
                // One damaged image must not hide the others; requesting it by name reports the error.
                Ok(None) | Err(StoreError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(images)
    }

    /// The image of that name.
    pub fn get(&self, name: &ImageName) -> Result<Image, StoreError> {
        match self.read(name)? {
            Some(image) => Ok(image),
            None => Err(self.not_found(name)),
        }
    }

    /// Removes an image, damaged ones too.
    pub fn remove(&self, name: &ImageName) -> Result<(), StoreError> {
        let directory = self.directory(name);
        if !directory.is_dir() {
            return Err(self.not_found(name));
        }
        let doing = "remove the image";
        // Hide it atomically first, which works on a full disk. If the process is killed then, a sweep removes the rest.
        let grave =
            partial::unused_path(&self.root, name.as_str()).map_err(StoreError::io(doing, &directory))?;
        fs::rename(&directory, &grave).map_err(StoreError::io(doing, &directory))?;
        fs::remove_dir_all(&grave).map_err(StoreError::io(doing, &directory))
    }

    /// Starts a new image. Nothing is visible before [`PendingImage::commit`].
    pub fn begin(&self, name: &ImageName, replace: bool) -> Result<PendingImage, StoreError> {
        if !replace && self.directory(name).exists() {
            return Err(StoreError::exists(name));
        }
        let partial = PartialDir::create(&self.root, name.as_str())
            .map_err(StoreError::io("start a new image in", &self.root))?;
        Ok(PendingImage::new(partial, name.clone(), self.directory(name), replace))
    }

    pub(super) fn directory(&self, name: &ImageName) -> PathBuf {
        self.root.join(name.as_str())
    }

    fn read(&self, name: &ImageName) -> Result<Option<Image>, StoreError> {
        let directory = self.directory(name);
        let damaged = |reason| StoreError::Damaged { name: name.to_string(), reason };
        let text = match read_meta(&directory.join(META)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if directory.is_dir() { Err(damaged(format!("it has no {META}"))) } else { Ok(None) };
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(damaged(format!("{META} is damaged: {error}")));
            }
            Err(error) => return Err(StoreError::io("read", &directory.join(META))(error)),
        };
        let meta = ImageMeta::from_json(&text).map_err(damaged)?;
        if meta.name != *name {
            return Err(damaged(format!("{META} is that of {:?}", meta.name.as_str())));
        }
        let image = Image { meta, directory };
        match fs::metadata(image.rootfs()) {
            Ok(found) if found.len() == image.meta.fs_bytes => Ok(Some(image)),
            Ok(found) => Err(damaged(format!(
                "{ROOTFS} has {} bytes, but {} were written",
                found.len(),
                image.meta.fs_bytes
            ))),
            Err(error) => Err(damaged(format!("{ROOTFS} cannot be read: {error}"))),
        }
    }

    fn names(&self) -> io::Result<Vec<ImageName>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            if let Some(name) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn not_found(&self, name: &ImageName) -> StoreError {
        let known = self.names().unwrap_or_default().iter().map(ToString::to_string).collect();
        StoreError::NotFound { name: name.to_string(), known }
    }
}

fn read_meta(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(META_MAX).read_to_string(&mut text)?;
    Ok(text)
}
