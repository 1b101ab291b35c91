//! An OCI image on the host as a source.

use std::path::{Path, PathBuf};

use agentiso_core::ports::RootfsSink;
use agentiso_core::progress::Progress;

use super::super::intake::Intake;
use super::super::{ImportLimits, RootfsSource, SourceError, Summary};
use super::blobs::Blobs;
use super::layers;
use super::manifest::{self, Plan};
use crate::partial::PartialDir;
use crate::store::{ImageSource, SourceKind};

/// Layers are mostly gzip.
const USUAL_RATIO: u64 = 3;

/// An OCI image: a layout directory, an archive of one, or what `docker save` wrote.
#[derive(Debug)]
pub struct OciSource {
    described: ImageSource,
    blobs: Blobs,
    plan: Plan,
    /// Keeps what was pulled until it has been read.
    _pulled: Option<PartialDir>,
}

impl OciSource {
    /// Opens an OCI layout directory.
    pub fn open_layout(path: &Path) -> Result<Self, SourceError> {
        Self::new(Blobs::Directory(path.to_owned()), describe(path))
    }

    /// Opens an archive; a compressed one is unpacked to an unnamed file in `scratch`.
    pub fn open_archive(path: &Path, scratch: &Path) -> Result<Self, SourceError> {
        Self::new(Blobs::in_archive(path, scratch)?, describe(path))
    }

    /// Opens a layout that was pulled from a registry and goes when it has been read.
    pub(in crate::source) fn of_pulled(pulled: PartialDir, reference: String) -> Result<Self, SourceError> {
        let described = ImageSource { kind: SourceKind::Registry, reference };
        let source = Self::new(Blobs::Directory(PathBuf::from(pulled.path())), described)?;
        Ok(Self { _pulled: Some(pulled), ..source })
    }

    fn new(blobs: Blobs, described: ImageSource) -> Result<Self, SourceError> {
        let plan =
            if blobs.has("index.json") { manifest::of_layout(&blobs) } else { manifest::of_docker(&blobs) };
        let plan = plan.map_err(|error| SourceError::rejected(&described.reference, error.to_string()))?;
        Ok(Self { described, blobs, plan, _pulled: None })
    }

    fn stored_bytes(&self) -> u64 {
        self.plan.layers.iter().map(|layer| layer.length).fold(0, u64::saturating_add)
    }
}

impl RootfsSource for OciSource {
    fn describe(&self) -> ImageSource {
        self.described.clone()
    }

    fn size_hint(&self) -> u64 {
        self.stored_bytes().saturating_mul(USUAL_RATIO)
    }

    fn stream(
        &mut self,
        sink: &mut dyn RootfsSink,
        progress: &dyn Progress,
        limits: ImportLimits,
    ) -> Result<Summary, SourceError> {
        let origin = &self.described.reference;
        let mut intake = Intake::new(sink, limits, origin).following_links();
        let count = self.plan.layers.len();
        for (index, layer) in self.plan.layers.iter().enumerate() {
            // Each layer is read twice.
            progress.step(&format!("unpacking layer {} of {count}", index + 1), Some(layer.length * 2));
            layers::apply(&self.blobs, layer, &mut intake, limits.content_bytes, progress, origin)?;
            progress.done("");
        }
        let (entries, bytes) = intake.totals();
        Ok(Summary {
            entries,
            bytes,
            digest: self.plan.digest.clone(),
            defaults: Some(self.plan.defaults.clone()),
        })
    }
}

fn describe(path: &Path) -> ImageSource {
    ImageSource { kind: SourceKind::OciArchive, reference: path.display().to_string() }
}
