//! An archive as the source of an image.

use std::fs::File;
use std::io;
use std::path::Path;

use agentiso_core::ports::RootfsSink;
use agentiso_core::progress::Progress;

use super::WorkspaceDescription;
use super::reader::{self, Pieces};
use crate::source::{ImportLimits, RootfsSource, SourceError, Summary, stream_tar};
use crate::store::{ImageSource, SourceKind};
use crate::unpack::{self, Compression};

/// A verified archive of a workspace.
#[derive(Debug)]
pub struct WorkspaceArchive {
    /// The description of its workspace.
    pub description: WorkspaceDescription,
    origin: String,
    length: u64,
    file: Option<File>,
}

impl WorkspaceArchive {
    /// Opens an archive and verifies its checksum. Error messages call it `origin`.
    pub fn open(path: &Path, origin: &str) -> Result<Self, SourceError> {
        let io = || SourceError::io("read", origin);
        let mut file = File::open(path).map_err(io())?;
        let meta = file.metadata().map_err(io())?;
        if !meta.is_file() {
            return Err(SourceError::rejected(origin, "it is not a regular file"));
        }
        let description = reader::open(&mut file).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                SourceError::rejected(origin, error.to_string())
            }
            _ => io()(error),
        })?;
        Ok(Self { description, origin: origin.to_owned(), length: meta.len(), file: Some(file) })
    }
}

impl RootfsSource for WorkspaceArchive {
    fn describe(&self) -> ImageSource {
        let reference = format!("archive of workspace {}", self.description.name);
        ImageSource { kind: SourceKind::Workspace, reference }
    }

    fn size_hint(&self) -> u64 {
        self.length.saturating_mul(Compression::Zstd.usual_ratio())
    }

    fn stream(
        &mut self,
        sink: &mut dyn RootfsSink,
        progress: &dyn Progress,
        limits: ImportLimits,
    ) -> Result<Summary, SourceError> {
        let corrupt = SourceError::corrupt(&self.origin);
        let file = self.file.take().ok_or_else(|| corrupt(io::Error::other("it was read already")))?;
        progress.step("reading the archive", None);
        let input = unpack::reader(Pieces::of(file)).map_err(&corrupt)?;
        let summary = stream_tar(input, sink, limits, &self.origin)?;
        progress.done(&format!("{} entries", summary.entries));
        Ok(Summary { defaults: self.description.defaults.clone(), ..summary })
    }
}
