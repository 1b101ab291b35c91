//! A child's way into its own root, and what it says should it not get there.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::isolation::{Entry, Stage};

/// The parent's end.
#[derive(Debug)]
pub(crate) struct WayIn {
    entry: Arc<Entry>,
    reader: OwnedFd,
}

/// The child's end.
#[derive(Debug)]
pub(crate) struct Traveller {
    entry: Arc<Entry>,
    writer: OwnedFd,
}

impl WayIn {
    pub fn new(entry: Entry) -> io::Result<(Self, Traveller)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let entry = Arc::new(entry);
        Ok((Self { entry: entry.clone(), reader }, Traveller { entry, writer }))
    }

    /// What it could not do, once it has failed. `None` if it got there.
    pub fn failed_to(self) -> Option<String> {
        let mut stage = [0; 4];
        File::from(self.reader).read_exact(&mut stage).ok()?;
        Some(self.entry.describe(Stage(u32::from_le_bytes(stage))))
    }
}

impl Traveller {
    /// Goes. Runs between fork and exec, so it makes system calls and nothing else.
    pub fn go(&self) -> io::Result<()> {
        self.entry.enter().map_err(|(stage, errno)| {
            // Without it the parent knows less.
            let _ = rustix::io::write(&self.writer, &stage.0.to_le_bytes());
            errno.into()
        })
    }
}
