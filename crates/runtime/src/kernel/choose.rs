//! Which kernels there are, and which one is used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;
use agentiso_images::kernel::build::{Unfinished, unfinished};
use agentiso_images::kernel::{self, Kernel, KernelSource};
use jiff::Timestamp;
use serde::Serialize;

use crate::Installation;
use crate::image_ops::blocking;

/// Where a kernel comes from, in a word.
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

/// What is known of a kernel.
#[derive(Clone, Debug, Serialize)]
pub struct KernelInfo {
    /// Where it comes from, in a word.
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

/// All kernels.
#[derive(Clone, Debug, Serialize)]
pub struct Kernels {
    /// Those that are prepared, the newest first.
    pub kernels: Vec<KernelInfo>,
    /// The directory of a build that was begun and not finished.
    pub unfinished_build: Option<PathBuf>,
    /// Whether a build is under way.
    pub build_under_way: bool,
}

impl KernelInfo {
    pub(super) fn of(kernel: &Kernel, in_use: bool) -> Self {
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

impl Installation {
    /// All kernels that are prepared, and what is being built.
    pub fn kernels(&self) -> Kernels {
        let current = kernel::current(&self.kernel_query()).map(|kernel| kernel.image);
        let is_current = |image: &Path| current.as_deref() == Some(image);
        let kernels = kernel::all(&self.paths.kernel_dir())
            .iter()
            .map(|kernel| KernelInfo::of(kernel, is_current(&kernel.image)))
            .collect();
        let build = unfinished(&self.paths.kernel_build_dir());
        let build_under_way = build.as_ref().is_some_and(|build| build.under_way);
        let unfinished_build = build.map(|Unfinished { path, .. }| path);
        Kernels { kernels, unfinished_build, build_under_way }
    }

    /// Makes machines start with the kernel that was built here.
    pub async fn use_built_kernel(&self) -> Result<KernelInfo, Failure> {
        let directory = self.paths.kernel_dir();
        let kernel = blocking(move || kernel::use_built(&directory)).await??;
        Ok(self.now_in_use(&kernel))
    }

    /// Makes machines start with the distribution's kernel, which is fetched if need be.
    pub async fn use_packaged_kernel(&self, progress: &Arc<dyn Progress>) -> Result<KernelInfo, Failure> {
        let (directory, progress) = (self.paths.kernel_dir(), progress.clone());
        let switch = move || {
            let kernel = kernel::find_packaged(&directory, progress.as_ref())?;
            kernel::use_packaged(&directory).map(|()| kernel)
        };
        let kernel = blocking(switch).await??;
        Ok(self.now_in_use(&kernel))
    }

    /// What is known of a kernel that was just chosen. One that the configuration names comes before it.
    pub(super) fn now_in_use(&self, kernel: &Kernel) -> KernelInfo {
        KernelInfo::of(kernel, self.config.vm.kernel.is_none())
    }
}
