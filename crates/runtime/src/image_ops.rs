//! Making images: from Debian packages, from files, from registries.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentiso_core::ports::host::ImageOrigin;
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, ImageName};
use agentiso_images::source::{ImportLimits, OciSource, RootfsSource, open, pull};
use agentiso_images::store::{Image, ImageMeta, ImageSource, PendingImage, SourceKind};
use agentiso_images::{debian, ext4};
use agentiso_meta::Meta;

use crate::Installation;

/// The name an image gets if the user gives none.
pub fn default_image_name(origin: &ImageOrigin) -> Result<ImageName, Failure> {
    let raw = match origin {
        ImageOrigin::Recipe(recipe) => recipe.clone(),
        ImageOrigin::Path(path) | ImageOrigin::Open { path, .. } => stem(path),
        ImageOrigin::Reference(reference) => {
            let name = reference.split('@').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
            name.strip_suffix(":latest").unwrap_or(name).replace(':', "-")
        }
    };
    let nameless = |_| {
        Failure::new(Code::InvalidArgument, format!("no image name can be made from {raw:?}"))
            .with_remedy("give one with --name")
    };
    raw.parse().map_err(nameless)
}

/// A file's name without the endings that say how it is packed.
fn stem(path: &Path) -> String {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut name = full.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for ending in [".gz", ".xz", ".zst", ".tgz", ".txz", ".tar"] {
        if let Some(shorter) = name.strip_suffix(ending) {
            name = shorter.to_owned();
        }
    }
    name
}

/// The recipes images can be built from: name and summary of each.
pub fn recipes() -> impl Iterator<Item = (&'static str, &'static str)> {
    debian::Recipe::ALL.into_iter().map(|recipe| (recipe.name(), recipe.summary()))
}

impl Installation {
    /// Makes an image. On failure, or when dropped half way, nothing of it is left. `login` says whether the user's own
    /// logins for registries are used.
    pub async fn make_image(
        &self,
        name: &ImageName,
        origin: &ImageOrigin,
        replace: bool,
        login: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Image, Failure> {
        let pending = self.begin_image(name, replace)?;
        let fs_bytes = self.config.defaults.resources().disk_bytes();
        let docker_config = login.then(docker_config).flatten();
        let source = self.open_origin(origin, &pending, docker_config, fs_bytes, progress).await?;
        self.finish_image(pending, source, fs_bytes, replace, progress).await
    }

    /// Starts a new image, which is refused if it has the name of one that is to stay.
    pub(crate) fn begin_image(&self, name: &ImageName, replace: bool) -> Result<PendingImage, Failure> {
        if replace {
            self.require_unused_image(name)?;
        }
        Ok(self.images()?.begin(name, replace)?)
    }

    /// Fills a new image from a source and makes it visible.
    pub(crate) async fn finish_image(
        &self,
        pending: PendingImage,
        source: Box<dyn RootfsSource>,
        fs_bytes: u64,
        replace: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Image, Failure> {
        let name = pending.name().clone();
        let kind = source.describe();
        let rootfs = pending.rootfs();
        blocking({
            let rootfs = rootfs.clone();
            move || ext4::make_blank(&rootfs, fs_bytes)
        })
        .await??;
        let limits = ImportLimits::for_content(fs_bytes);
        let summary = self.fill(&rootfs, source, limits, progress).await?;
        progress.step("Checking the file system", None);
        let checked = rootfs.clone();
        let superblock =
            blocking(move || ext4::check(&checked).and_then(|()| ext4::superblock(&checked))).await??;
        let meta = ImageMeta {
            name: name.clone(),
            source: kind,
            created: jiff::Timestamp::now(),
            digest: summary.digest,
            fs_bytes,
            content_bytes: summary.bytes,
            entries: summary.entries,
            fs_uuid: superblock.uuid,
            defaults: summary.defaults,
        };
        if replace {
            // Somebody may have made a workspace of the old one meanwhile.
            self.require_unused_image(&name)?;
        }
        let image = blocking(move || pending.commit(&meta)).await??;
        progress.done(&format!("{} files", image.meta.entries));
        Ok(image)
    }

    /// Removes images: all of them, or none if one is needed or not there.
    pub fn remove_images(&self, names: &[ImageName]) -> Result<(), Failure> {
        self.make_room();
        let store = self.images()?;
        for name in names {
            store.get(name)?;
            self.require_unused_image(name)?;
        }
        for name in names {
            store.remove(name)?;
        }
        self.keep_reserve();
        Ok(())
    }

    /// Refuses an image that workspaces were made of: their disks stand on it, so it has to stay as it is.
    pub fn require_unused_image(&self, name: &ImageName) -> Result<(), Failure> {
        if !self.paths.state_file().exists() {
            return Ok(());
        }
        let meta = Meta::open(&self.paths.state_file())?;
        let users = meta.read(|read| read.workspaces())?;
        let users: Vec<&str> = users
            .iter()
            .filter(|workspace| workspace.image == *name)
            .map(|user| user.name.as_str())
            .collect();
        if users.is_empty() {
            return Ok(());
        }
        let message = format!("the image {:?} is needed by: {}", name.as_str(), users.join(", "));
        Err(Failure::new(Code::ImageInUse, message)
            .with_remedy("remove those workspaces first, or give the new image another name"))
    }

    async fn open_origin(
        &self,
        origin: &ImageOrigin,
        pending: &PendingImage,
        docker_config: Option<PathBuf>,
        max_bytes: u64,
        progress: &Arc<dyn Progress>,
    ) -> Result<Box<dyn RootfsSource>, Failure> {
        let scratch = pending.scratch()?;
        match origin {
            ImageOrigin::Reference(reference) => {
                let source: OciSource =
                    pull(reference, &scratch, docker_config.as_deref(), max_bytes, progress.as_ref()).await?;
                Ok(Box::new(source))
            }
            ImageOrigin::Path(path) => {
                let path = path.clone();
                Ok(blocking(move || open(&path, &scratch)).await??)
            }
            ImageOrigin::Open { file, path } => {
                let (file, reference) = (file.clone(), path.display().to_string());
                let source = blocking(move || open(&file, &scratch)).await??;
                let origin = ImageSource { reference, ..source.describe() };
                Ok(Box::new(Described { source, origin }))
            }
            ImageOrigin::Recipe(recipe) => {
                let recipe: debian::Recipe = recipe.parse()?;
                let (tar, progress) = (scratch.join("rootfs.tar"), progress.clone());
                let built = tar.clone();
                let cancel = CancelOnDrop::default();
                let cancelled = cancel.0.clone();
                blocking(move || debian::build(recipe, &built, &cancelled, progress.as_ref())).await??;
                let source = blocking(move || open(&tar, &scratch)).await??;
                let origin = ImageSource { kind: SourceKind::Debian, reference: recipe.to_string() };
                Ok(Box::new(Described { source, origin }))
            }
        }
    }
}

/// Tells a thread that nobody waits for it any more.
#[derive(Default)]
pub(crate) struct CancelOnDrop(pub(crate) Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A source that came from elsewhere than it says.
struct Described {
    source: Box<dyn RootfsSource>,
    origin: ImageSource,
}

impl RootfsSource for Described {
    fn describe(&self) -> ImageSource {
        self.origin.clone()
    }

    fn size_hint(&self) -> u64 {
        self.source.size_hint()
    }

    fn stream(
        &mut self,
        sink: &mut dyn agentiso_core::ports::RootfsSink,
        progress: &dyn Progress,
        limits: ImportLimits,
    ) -> Result<agentiso_images::source::Summary, agentiso_images::source::SourceError> {
        self.source.stream(sink, progress, limits)
    }
}

fn docker_config() -> Option<PathBuf> {
    let dir = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let dir = dir.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker")))?;
    Some(dir.join("config.json")).filter(|file| file.is_file())
}

/// Runs something that blocks where blocking is no harm.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::new(Code::Internal, format!("a background task failed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_after_where_they_come_from() {
        let name = |origin: ImageOrigin| default_image_name(&origin).unwrap().to_string();
        assert_eq!(name(ImageOrigin::Recipe("debian-dev".to_owned())), "debian-dev");
        assert_eq!(name(ImageOrigin::Path("/x/alpine-3.20.tar.gz".into())), "alpine-3.20");
        assert_eq!(name(ImageOrigin::Path("/x/rootfs.tgz".into())), "rootfs");
        assert_eq!(name(ImageOrigin::Reference("127.0.0.1:5000/team/app:1.2".to_owned())), "app-1.2");
        assert_eq!(name(ImageOrigin::Reference("alpine:latest".to_owned())), "alpine");
        assert_eq!(name(ImageOrigin::Reference("busybox@sha256:00".to_owned())), "busybox");
    }

    #[test]
    fn a_name_that_cannot_be_made_asks_for_one() {
        let failure = default_image_name(&ImageOrigin::Path("/x/my image.tar".into())).unwrap_err();
        assert_eq!(failure.remedy(), Some("give one with --name"));
    }
}
