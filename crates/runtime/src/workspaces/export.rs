//! Exporting workspaces as archives that another installation can import.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentiso_blocking::off_thread;
use agentiso_core::progress::Progress;
use agentiso_core::{Failure, ImageName, Resources, WorkspaceId};
use agentiso_images::CancelOnDrop;
use agentiso_images::archive::{ArchiveWriter, WorkspaceArchive, WorkspaceDescription};
use agentiso_images::pack::TarSink;
use agentiso_images::source::ImportLimits;
use agentiso_images::store::Image;

use super::create::now;
use super::{Exported, Point, Workspaces};
use crate::disk_tree;
use crate::image_export::ExportError;

/// The compression level: low, because the caller waits for it.
const LEVEL: i32 = 3;

impl Workspaces {
    /// Writes a workspace, running or stopped, as an archive. On failure the caller removes what was written.
    pub async fn export(
        &self,
        workspace: WorkspaceId,
        labels: BTreeMap<String, String>,
        max_bytes: u64,
        out: impl Write + Send + 'static,
        progress: &Arc<dyn Progress>,
    ) -> Result<Exported, Failure> {
        let workspace = self.meta.read(|read| read.workspace(workspace))?;
        let view = self.view_to_keep(Point::Now(workspace.id)).await?;
        let Resources { vcpus, memory_mb, disk_gb } = workspace.resources;
        // The image may have been removed; then its defaults are not exported.
        let image = self.installation.image_if_known(&workspace.image)?;
        let description = WorkspaceDescription {
            name: workspace.name,
            image: workspace.image,
            vcpus,
            memory_mb,
            disk_gb,
            labels,
            created: workspace.created,
            exported: now(),
            defaults: image.and_then(|image| image.meta.defaults),
        };
        let cancel = CancelOnDrop::default();
        let (cancelled, progress) = (cancel.flag(), progress.clone());
        let written = off_thread(move || {
            let out = Bounded { inner: out, left: max_bytes, max_bytes, cancelled };
            let packed = zstd::Encoder::new(ArchiveWriter::new(out, &description)?, LEVEL)?;
            let mut sink = TarSink::new(packed);
            let limits = ImportLimits::for_content(view.size());
            disk_tree::stream(view.as_ref(), &mut sink, limits.entries, progress.as_ref())?;
            let (packed, files, _) = sink.finish()?;
            let (_, bytes) = packed.finish()?.finish()?;
            Ok::<_, ExportError>(Exported { bytes, files })
        });
        written.await.map_err(|error| error.0)
    }

    /// Opens an archive and checks that it is complete. Error messages call it `origin`.
    pub async fn open_archive(&self, path: &Path, origin: &str) -> Result<WorkspaceArchive, Failure> {
        let (path, origin) = (path.to_owned(), origin.to_owned());
        Ok(off_thread(move || WorkspaceArchive::open(&path, &origin)).await?)
    }

    /// Makes an image from an archive's files. On failure, or when dropped, nothing of it is left.
    pub async fn image_of_archive(
        &self,
        archive: WorkspaceArchive,
        name: &ImageName,
        fs_bytes: u64,
        progress: &Arc<dyn Progress>,
    ) -> Result<Image, Failure> {
        let pending = self.installation.begin_image(name, false)?;
        self.installation.finish_image(pending, Box::new(archive), fs_bytes, false, progress).await
    }
}

/// A writer with a size limit, which fails once the export was cancelled.
struct Bounded<W> {
    inner: W,
    left: u64,
    max_bytes: u64,
    cancelled: Arc<AtomicBool>,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("it was cancelled"));
        }
        let written = self.inner.write(bytes)?;
        self.left = self.left.checked_sub(written as u64).ok_or_else(|| {
            let reason = format!("the archive has more than {} bytes", self.max_bytes);
            std::io::Error::new(std::io::ErrorKind::FileTooLarge, reason)
        })?;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
