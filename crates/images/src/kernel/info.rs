//! Listing kernels for people.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::build::{Unfinished, unfinished};
use super::{Kernel, KernelQuery, KernelSource, all, current};

/// The kind of a kernel's origin.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelKind {
    /// A package of the distribution.
    Packaged,
    /// Built here.
    Built,
    /// A file that the configuration names.
    Configured,
    /// The host's own.
    Host,
}

/// A kernel in a listing.
#[derive(Clone, Debug, Serialize)]
pub struct KernelInfo {
    /// The kind of its origin.
    pub kind: KernelKind,
    /// Its version, as in `uname -r`.
    pub version: String,
    /// Whether machines start with it.
    pub in_use: bool,
    /// The size of the image.
    pub bytes: u64,
    /// When it was prepared.
    pub created: Option<Timestamp>,
    /// The package, the source or the file it comes from.
    pub source: String,
    /// The image.
    pub path: PathBuf,
    /// The blake3 hash of the image.
    pub blake3: String,
}

/// All kernels of an installation.
#[derive(Clone, Debug, Serialize)]
pub struct Kernels {
    /// The prepared kernels, newest first.
    pub kernels: Vec<KernelInfo>,
    /// The directory of a build that was started and not finished.
    pub unfinished_build: Option<PathBuf>,
    /// Whether a build is running.
    pub build_under_way: bool,
}

impl KernelInfo {
    /// Describes a kernel. Its size and age are left out if the image cannot be read.
    pub fn of(kernel: &Kernel, in_use: bool) -> Self {
        let (kind, source) = match &kernel.source {
            KernelSource::Package(name) => (KernelKind::Packaged, name.clone()),
            KernelSource::Built(from) => (KernelKind::Built, from.clone()),
            KernelSource::Configured(path) => (KernelKind::Configured, path.display().to_string()),
            KernelSource::Host(path) => (KernelKind::Host, path.display().to_string()),
        };
        let meta = std::fs::metadata(&kernel.image).ok();
        let created = meta.as_ref().and_then(|meta| Timestamp::try_from(meta.modified().ok()?).ok());
        Self {
            kind,
            version: kernel.version.clone(),
            in_use,
            bytes: meta.map_or(0, |meta| meta.len()),
            created,
            source,
            path: kernel.image.clone(),
            blake3: kernel.blake3.clone(),
        }
    }
}

/// Lists the prepared kernels, and the build in `build_dir` if one was started.
pub fn list(query: &KernelQuery, build_dir: &Path) -> Kernels {
    let current = current(query).map(|kernel| kernel.image);
    let is_current = |image: &Path| current.as_deref() == Some(image);
    let kernels = all(&query.directory)
        .iter()
        .map(|kernel| KernelInfo::of(kernel, is_current(&kernel.image)))
        .collect();
    let build = unfinished(build_dir);
    let build_under_way = build.as_ref().is_some_and(|build| build.under_way);
    let unfinished_build = build.map(|Unfinished { path, .. }| path);
    Kernels { kernels, unfinished_build, build_under_way }
}
