//! Files as they are read and written.

use std::sync::Arc;

use agentiso_core::ports::link::{FileReader, FileWriter, GuestError, LinkError, Metadata, WriteOptions};
use async_trait::async_trait;
use bytes::Bytes;

use crate::fake::machine::{Machine, locked};

/// How much of a file comes at once.
const PIECE: usize = 64 * 1024;

pub(super) struct Reader {
    metadata: Result<Metadata, GuestError>,
    left: Bytes,
}

impl Reader {
    pub fn new(read: Result<(Metadata, Vec<u8>), GuestError>, offset: u64, length: Option<u64>) -> Self {
        let (metadata, bytes) = match read {
            Ok((metadata, bytes)) => (Ok(metadata), bytes),
            Err(error) => (Err(error), Vec::new()),
        };
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let start = number(offset).min(bytes.len());
        let end = start.saturating_add(length.map_or(usize::MAX, number)).min(bytes.len());
        Self { metadata, left: Bytes::from(bytes).slice(start..end) }
    }
}

#[async_trait]
impl FileReader for Reader {
    async fn metadata(&mut self) -> Result<Metadata, LinkError> {
        self.metadata.clone().map_err(LinkError::Guest)
    }

    async fn next(&mut self) -> Result<Option<Bytes>, LinkError> {
        self.metadata().await?;
        let piece = self.left.split_to(self.left.len().min(PIECE));
        Ok((!piece.is_empty()).then_some(piece))
    }
}

pub(super) struct Writer {
    machine: Arc<Machine>,
    path: Vec<u8>,
    options: WriteOptions,
    content: Vec<u8>,
}

impl Writer {
    pub fn new(machine: Arc<Machine>, path: &[u8], options: WriteOptions) -> Self {
        Self { machine, path: path.to_vec(), options, content: Vec::new() }
    }
}

#[async_trait]
impl FileWriter for Writer {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.machine.require_alive()?;
        self.content.extend_from_slice(bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<u64, LinkError> {
        self.machine.require_alive()?;
        let Self { machine, path, options, content } = *self;
        let length = content.len() as u64;
        let written = locked(&machine.disk).write(&path, content, options);
        written.map(|()| length).map_err(LinkError::Guest)
    }
}
