//! Connections to servers inside a workspace.

use async_trait::async_trait;
use bytes::Bytes;

use super::LinkError;

/// What the server sends. Dropping it before the end breaks the connection.
#[async_trait]
pub trait ConnectionReader: Send {
    /// The next piece, `None` when the server has sent everything. Cancel safe. A connection that broke is an error.
    async fn next(&mut self) -> Result<Option<Bytes>, LinkError>;
}

/// Sends to the server. Dropping it ends this direction; the other one stays open.
#[async_trait]
pub trait ConnectionWriter: Send {
    /// Writes all of it, as fast as the server reads. If the future is dropped, some of it may have been written.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError>;
}
