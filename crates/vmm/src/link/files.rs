//! Reading and writing one file.

use agentiso_proto::{Channel, MAX_PAYLOAD, Metadata, RawPath, Request, Response};
use bytes::Bytes;

use super::deadline::WORK;
use super::exchange::Exchange;
use super::stream::{Event, Shape};
use super::{Guest, LinkError, WriteOptions};

const READING: Shape = Shape { receives: &[Channel::Main], budget: 2 * MAX_PAYLOAD };
const WRITING: Shape = Shape { receives: &[], budget: 2 * MAX_PAYLOAD };

impl Guest {
    /// Reads a file from `offset`; no more than `length` bytes, if given.
    pub async fn read_file(
        &self,
        path: impl Into<RawPath>,
        offset: u64,
        length: Option<u64>,
    ) -> Result<FileReader, LinkError> {
        let request = Request::ReadFile { path: path.into(), offset, length };
        let exchange = self.start(&request, READING).await?;
        Ok(FileReader { exchange, metadata: None, left: length.unwrap_or(u64::MAX), over: false })
    }

    /// Writes a file. Nothing is replaced before [`FileWriter::finish`] succeeds.
    pub async fn write_file(
        &self,
        path: impl Into<RawPath>,
        options: WriteOptions,
    ) -> Result<FileWriter, LinkError> {
        let WriteOptions { mode, append, parents } = options;
        let request = Request::WriteFile { path: path.into(), mode, append, parents };
        Ok(FileWriter { upload: Upload::new(self.start(&request, WRITING).await?) })
    }
}

/// The content of a file as a stream. Dropping it stops the transfer.
#[derive(Debug)]
pub struct FileReader {
    exchange: Exchange,
    metadata: Option<Metadata>,
    left: u64,
    over: bool,
}

impl FileReader {
    /// The file's metadata.
    pub async fn metadata(&mut self) -> Result<&Metadata, LinkError> {
        let metadata = match self.metadata.take() {
            Some(metadata) => metadata,
            None => match self.exchange.next().await? {
                Event::Response(Response::Metadata(metadata)) => metadata,
                other => return Err(self.exchange.unexpected(&other)),
            },
        };
        Ok(self.metadata.insert(metadata))
    }

    /// The next piece, `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, LinkError> {
        if self.over {
            return Ok(None);
        }
        let piece = self.advance().await;
        self.over = !matches!(piece, Ok(Some(_)));
        piece
    }

    async fn advance(&mut self) -> Result<Option<Bytes>, LinkError> {
        self.metadata().await?;
        match self.exchange.next().await? {
            Event::Data(_, bytes) => {
                let left = self.left.checked_sub(bytes.len() as u64);
                let left =
                    left.ok_or_else(|| self.exchange.guest().violation("more of a file than asked for"))?;
                self.left = left;
                Ok(Some(bytes.into()))
            }
            Event::Last(Response::Done) => Ok(None),
            other => Err(self.exchange.unexpected(&other)),
        }
    }
}

/// Writes the content of a file. Dropping it before [`Self::finish`] leaves the guest's file unchanged.
#[derive(Debug)]
pub struct FileWriter {
    upload: Upload,
}

impl FileWriter {
    /// Writes all bytes, as fast as the guest takes them.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.upload.write(bytes).await
    }

    /// Ends the content, waits until the file is in place, and returns how many bytes were written.
    pub async fn finish(self) -> Result<u64, LinkError> {
        self.upload.finish().await
    }
}

/// Content on its way to the guest.
#[derive(Debug)]
pub(super) struct Upload {
    exchange: Exchange,
}

impl Upload {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self { exchange }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        match self.exchange.send(bytes).await {
            // The guest stopped before the end of the content, and its response says why.
            Err(LinkError::InputEnded) => {
                let event = self.exchange.next().await?;
                Err(self.exchange.unexpected(&event))
            }
            sent => sent,
        }
    }

    pub(super) async fn finish(mut self) -> Result<u64, LinkError> {
        self.exchange.guest().send_eof(self.exchange.stream());
        // The guest may have to flush the content to its disk first.
        self.exchange.allow_silence(WORK);
        match self.exchange.next().await? {
            Event::Last(Response::Written { bytes }) => Ok(bytes),
            other => Err(self.exchange.unexpected(&other)),
        }
    }
}
