//! Opening a source of any kind.

use std::fs::File;
use std::path::Path;

use agentiso_core::ports::RootfsSink;
use agentiso_core::progress::Progress;

use super::{DirectorySource, ImportLimits, OciSource, SourceError, TarReader, TarSource};
use crate::store::{ImageSource, OciDefaults};
use crate::unpack;

/// The totals of a source.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// The final number of entries of all kinds.
    pub entries: u64,
    /// Bytes in files that were passed on.
    pub bytes: u64,
    /// The digest of the manifest, if the source was an OCI image.
    pub digest: Option<String>,
    /// The defaults of the image, if the source was an OCI image.
    pub defaults: Option<OciDefaults>,
}

/// Something a root file system can be read from.
pub trait RootfsSource: Send {
    /// Its origin, for `image.json`.
    fn describe(&self) -> ImageSource;

    /// A cheap estimate of how many bytes its files have.
    fn size_hint(&self) -> u64;

    /// Passes everything on to the sink, checked and in order.
    fn stream(
        &mut self,
        sink: &mut dyn RootfsSink,
        progress: &dyn Progress,
        limits: ImportLimits,
    ) -> Result<Summary, SourceError>;
}

/// Opens a directory, an OCI layout, an OCI or docker archive, or a tarball, whichever `path` is.
///
/// `scratch` is an existing directory for what must be unpacked before it can be read.
pub fn open(path: &Path, scratch: &Path) -> Result<Box<dyn RootfsSource>, SourceError> {
    let what = path.display().to_string();
    let meta = std::fs::metadata(path).map_err(SourceError::io("open", &what))?;
    if meta.is_dir() {
        return if path.join("oci-layout").is_file() {
            Ok(Box::new(OciSource::open_layout(path)?))
        } else {
            Ok(Box::new(DirectorySource::open(path)?))
        };
    }
    if !meta.is_file() {
        return Err(SourceError::rejected(&what, "it is neither a file nor a directory"));
    }
    if is_image_archive(path)? {
        Ok(Box::new(OciSource::open_archive(path, scratch)?))
    } else {
        Ok(Box::new(TarSource::open(path)?))
    }
}

/// Whether a tarball holds an image rather than a root file system.
///
/// The marker files may come after all layers, but every member before them has a name that only image archives use. So
/// the first other name means that it is a root file system.
fn is_image_archive(path: &Path) -> Result<bool, SourceError> {
    let corrupt = SourceError::corrupt(&path.display().to_string());
    let file = File::open(path).map_err(SourceError::io("open", path.display()))?;
    let mut tar = TarReader::new(unpack::reader(file).map_err(&corrupt)?);
    while let Some(member) = tar.next().map_err(&corrupt)? {
        let name = member.path.strip_prefix(b"./").unwrap_or(&member.path);
        match name {
            b"oci-layout" | b"manifest.json" => return Ok(true),
            b"" | b"." | b"index.json" | b"repositories" => {}
            name if name.starts_with(b"blobs") => {}
            // `<64 hex digits>.json`, `<64 hex digits>/layer.tar`, `<64 hex digits>.tar`
            name if name.len() >= 64 && name[..64].iter().all(u8::is_ascii_hexdigit) => {}
            _ => return Ok(false),
        }
    }
    Ok(false)
}
