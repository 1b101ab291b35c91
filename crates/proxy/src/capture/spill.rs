//! The file with all of a long output.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is written to until something fails.
pub enum Spill {
    /// There is no file.
    None,
    /// It could not be created.
    Failed(String),
    /// It is written to.
    Open {
        file: File,
        path: PathBuf,
        written: u64,
        limit: u64,
        /// Why nothing more is written.
        failed: Option<String>,
    },
}

impl Spill {
    /// Creates the file, readable by its owner alone. One that exists is replaced: the name belongs to one run.
    pub fn create(path: &Path, limit: u64) -> Self {
        let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        match opened {
            Ok(file) => Self::Open { file, path: path.to_owned(), written: 0, limit, failed: None },
            Err(error) => Self::Failed(failure(path, &error)),
        }
    }

    /// Writes what the limit allows.
    pub fn write(&mut self, bytes: &[u8]) {
        let Self::Open { file, path, written, limit, failed: failed @ None } = self else { return };
        let room = usize::try_from(*limit - *written).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        match file.write_all(bytes) {
            Ok(()) => *written += bytes.len() as u64,
            Err(error) => {
                *failed = Some(failure(path, &error));
                // A part may have been written.
                *written = file.metadata().map_or(*written, |meta| meta.len());
            }
        }
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Open { path, .. } => Some(path),
            _ => None,
        }
    }

    /// The file, its length, and what failed.
    pub fn end(self) -> (Option<PathBuf>, u64, Option<String>) {
        match self {
            Self::None => (None, 0, None),
            Self::Failed(why) => (None, 0, Some(why)),
            Self::Open { path, written, failed, .. } => (Some(path), written, failed),
        }
    }
}

fn failure(path: &Path, error: &std::io::Error) -> String {
    format!("could not keep all of the output in {}: {error}", path.display())
}
