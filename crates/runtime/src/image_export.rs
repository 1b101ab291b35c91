//! Exporting an image as an archive.

use std::io::Write;
use std::sync::Arc;

use agentiso_blocking::off_thread;
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, ImageName};
use agentiso_diff::WalkError;
use agentiso_images::pack::{TarSink, write_oci_archive};
use agentiso_images::source::ImportLimits;
use agentiso_images::store::Image;

use crate::Installation;
use crate::disk_tree::{self, RawDisk};

/// The format of an exported image.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ArchiveFormat {
    /// A tarball of its files.
    #[default]
    Tar,
    /// An OCI archive with one layer. Keeps the image's defaults (environment, working directory, user).
    Oci,
}

/// The writer an archive goes to.
pub type Archive = Box<dyn Write + Send>;

impl Installation {
    /// Writes an image as an archive to `out`, and returns `out`.
    pub async fn export_image(
        &self,
        name: &ImageName,
        format: ArchiveFormat,
        out: Archive,
        progress: &Arc<dyn Progress>,
    ) -> Result<(Image, Archive), Failure> {
        let image = self.image(name)?;
        let (source, scratch, progress) = (image.clone(), self.paths.cache_dir(), progress.clone());
        let out = off_thread(move || match format {
            ArchiveFormat::Tar => {
                let mut sink = TarSink::new(out);
                copy(&source, &mut sink, progress.as_ref())?;
                sink.finish().map(|(out, ..)| out).map_err(ExportError::from)
            }
            ArchiveFormat::Oci => {
                write_oci_archive(out, &scratch, &source.meta, |sink| copy(&source, sink, progress.as_ref()))
            }
        })
        .await;
        Ok((image, out.map_err(|error| error.0)?))
    }
}

/// Why an archive could not be written.
#[derive(Debug)]
pub(crate) struct ExportError(pub(crate) Failure);

impl From<std::io::Error> for ExportError {
    fn from(error: std::io::Error) -> Self {
        Self(Failure::new(Code::of_io(&error), format!("could not write the archive: {error}")))
    }
}

impl From<WalkError> for ExportError {
    fn from(error: WalkError) -> Self {
        match error {
            WalkError::Disk(error) => Self(error.into()),
            WalkError::Visitor(error) => error.into(),
        }
    }
}

fn copy(
    image: &Image,
    sink: &mut dyn agentiso_core::ports::RootfsSink,
    progress: &dyn Progress,
) -> Result<(), ExportError> {
    let disk = RawDisk::open(&image.rootfs())?;
    let limits = ImportLimits::for_content(image.meta.fs_bytes);
    Ok(disk_tree::stream(&disk, sink, limits.entries, progress)?)
}
