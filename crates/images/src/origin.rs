//! Where a new image comes from: a recipe, a file, a directory or a registry.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentiso_blocking::off_thread;
use agentiso_core::ports::RootfsSink;
use agentiso_core::ports::host::ImageOrigin;
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, ImageName};

use crate::debian;
use crate::source::{ImportLimits, RootfsSource, SourceError, Summary, open, pull};
use crate::store::{ImageSource, SourceKind};

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

/// A file's name without the extensions of archives and compression.
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

/// The recipes that images can be built from: name and summary of each.
pub fn recipes() -> impl Iterator<Item = (&'static str, &'static str)> {
    debian::Recipe::ALL.into_iter().map(|recipe| (recipe.name(), recipe.summary()))
}

/// Opens an origin as a source of files: builds the recipe, pulls the reference or opens the file.
///
/// `scratch` is an existing directory for intermediate files, which the caller removes. `docker_config` is a docker
/// configuration with logins for registries. Layers of more than `max_bytes` in total are refused. If the returned
/// future is dropped, a build in progress is cancelled.
pub async fn open_origin(
    origin: &ImageOrigin,
    scratch: PathBuf,
    docker_config: Option<PathBuf>,
    max_bytes: u64,
    progress: &Arc<dyn Progress>,
) -> Result<Box<dyn RootfsSource>, Failure> {
    match origin {
        ImageOrigin::Reference(reference) => {
            let config = docker_config.as_deref();
            Ok(Box::new(pull(reference, &scratch, config, max_bytes, progress.as_ref()).await?))
        }
        ImageOrigin::Path(path) => {
            let path = path.clone();
            Ok(off_thread(move || open(&path, &scratch)).await?)
        }
        ImageOrigin::Open { file, path } => {
            let (file, reference) = (file.clone(), path.display().to_string());
            let source = off_thread(move || open(&file, &scratch)).await?;
            let origin = ImageSource { reference, ..source.describe() };
            Ok(Box::new(Described { source, origin }))
        }
        ImageOrigin::Recipe(recipe) => {
            let recipe: debian::Recipe = recipe.parse()?;
            let (tar, progress) = (scratch.join("rootfs.tar"), progress.clone());
            let cancel = CancelOnDrop::default();
            let cancelled = cancel.flag();
            let build = move || {
                debian::build(recipe, &tar, &cancelled, progress.as_ref())?;
                Ok::<_, Failure>(open(&tar, &scratch)?)
            };
            let source = off_thread(build).await?;
            let origin = ImageSource { kind: SourceKind::Debian, reference: recipe.to_string() };
            Ok(Box::new(Described { source, origin }))
        }
    }
}

/// Tells a blocking thread to stop when the future that waits for it is dropped.
#[derive(Default)]
pub struct CancelOnDrop(Arc<AtomicBool>);

impl CancelOnDrop {
    /// The flag for the thread to check.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A source with another description than its own: a built tarball is recorded as the recipe it was built from.
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
        sink: &mut dyn RootfsSink,
        progress: &dyn Progress,
        limits: ImportLimits,
    ) -> Result<Summary, SourceError> {
        self.source.stream(sink, progress, limits)
    }
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
