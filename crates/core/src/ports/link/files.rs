//! Reading and writing one file.

use async_trait::async_trait;
use bytes::Bytes;

use super::{LinkError, Metadata};

/// How a file is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WriteOptions {
    /// Permission bits; those of the file that is replaced, else 0644, if absent.
    pub mode: Option<u32>,
    /// Appends to the file instead of replacing it atomically.
    pub append: bool,
    /// Creates missing parent directories.
    pub parents: bool,
}

/// The content of a file as it arrives. Dropping it stops the transfer.
#[async_trait]
pub trait FileReader: Send {
    /// Metadata of the file; waits until it has arrived.
    async fn metadata(&mut self) -> Result<Metadata, LinkError>;

    /// The next piece, `None` at the end. Cancel safe.
    async fn next(&mut self) -> Result<Option<Bytes>, LinkError>;
}

/// Takes the content of a file. Dropping it before [`Self::finish`] leaves the file unchanged.
#[async_trait]
pub trait FileWriter: Send {
    /// Writes all of it, as fast as the guest takes it.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError>;

    /// Ends the content, waits until the file is in place, and returns the number of bytes written.
    async fn finish(self: Box<Self>) -> Result<u64, LinkError>;
}
