//! Writing an image out, for other installations and other tools.

use std::io::Write;
use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, ImageName};
use agentiso_diff::WalkError;
use agentiso_images::pack::{TarSink, write_oci_archive};
use agentiso_images::source::ImportLimits;
use agentiso_images::store::Image;

use crate::Installation;
use crate::disk_tree::{self, RawDisk};
use crate::image_ops::blocking;

/// What an image is written as.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ArchiveFormat {
    /// A tarball of its files.
    #[default]
    Tar,
    /// An OCI archive with one layer, which keeps what the image says about how it is run.
    Oci,
}

/// Where an archive is written to, and back.
pub type Archive = Box<dyn Write + Send>;

impl Installation {
    /// Writes an image as an archive to `out`, which is given back.
    pub async fn export_image(
        &self,
        name: &ImageName,
        format: ArchiveFormat,
        out: Archive,
        progress: &Arc<dyn Progress>,
    ) -> Result<(Image, Archive), Failure> {
        let image = self.images()?.get(name)?;
        let (source, scratch, progress) = (image.clone(), self.paths.cache_dir(), progress.clone());
        let out = blocking(move || match format {
            ArchiveFormat::Tar => {
                let mut sink = TarSink::new(out);
                copy(&source, &mut sink, progress.as_ref())?;
                sink.finish().map(|(out, ..)| out).map_err(Trouble::from)
            }
            ArchiveFormat::Oci => {
                write_oci_archive(out, &scratch, &source.meta, |sink| copy(&source, sink, progress.as_ref()))
            }
        })
        .await?;
        Ok((image, out.map_err(|trouble| trouble.0)?))
    }
}

/// A failure on the way into an archive.
#[derive(Debug)]
pub(crate) struct Trouble(pub(crate) Failure);

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self(Failure::new(Code::of_io(&error), format!("could not write the archive: {error}")))
    }
}

impl From<WalkError> for Trouble {
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
) -> Result<(), Trouble> {
    let disk = RawDisk::open(&image.rootfs())?;
    let limits = ImportLimits::for_content(image.meta.fs_bytes);
    Ok(disk_tree::stream(&disk, sink, limits.entries, progress)?)
}
