//! One writer at a time, among all processes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::NotesError;

/// Held while files, history and index are changed. Ends with its process at the latest.
#[derive(Debug)]
pub(crate) struct WriteLock {
    _file: File,
}

impl WriteLock {
    /// Waits for the lock.
    pub(crate) fn wait(state: &Path) -> Result<Self, NotesError> {
        let path = state.join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(NotesError::io("open", &path))?;
        rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))
            .map_err(NotesError::os("lock", &path))?;
        Ok(Self { _file: file })
    }
}
