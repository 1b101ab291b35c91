//! Entering a private root between fork and exec, and reporting which step failed.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::isolation::{Entry, Stage};

/// The parent's end.
#[derive(Debug)]
pub(crate) struct EntryMonitor {
    entry: Arc<Entry>,
    reader: OwnedFd,
}

/// The child's end.
#[derive(Debug)]
pub(crate) struct EntryChild {
    entry: Arc<Entry>,
    writer: OwnedFd,
}

impl EntryMonitor {
    pub fn new(entry: Entry) -> io::Result<(Self, EntryChild)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let entry = Arc::new(entry);
        Ok((Self { entry: entry.clone(), reader }, EntryChild { entry, writer }))
    }

    /// The step that failed, after the child has failed. `None` if it entered its root.
    pub fn failed_to(self) -> Option<String> {
        let mut stage = [0; 4];
        File::from(self.reader).read_exact(&mut stage).ok()?;
        Some(self.entry.describe(Stage(u32::from_le_bytes(stage))))
    }
}

impl EntryChild {
    /// Enters the root. Runs between fork and exec, so it only makes system calls.
    pub fn enter(&self) -> io::Result<()> {
        self.entry.enter().map_err(|(stage, errno)| {
            // On failure the parent's error message only lacks the step.
            let _ = rustix::io::write(&self.writer, &stage.0.to_le_bytes());
            errno.into()
        })
    }
}
