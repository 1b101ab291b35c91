//! MCP over standard input and output, or any pair of streams.

use rmcp::ServiceExt;
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Server;
use crate::Backend;

/// Maximum length of a message: the largest file that can be written in one call, in base64, plus some room.
pub(super) const LONGEST_MESSAGE: usize = 48 << 20;

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client's handshake was invalid.
    #[error("the client sent an invalid MCP handshake")]
    Began(#[source] Box<ServerInitializeError>),
    /// The connection was lost.
    #[error("the connection to the client was lost")]
    Broke(#[source] tokio::task::JoinError),
}

impl agentiso_core::Explain for ServeError {
    fn code(&self) -> agentiso_core::Code {
        match self {
            Self::Began(_) => agentiso_core::Code::ProtocolViolation,
            Self::Broke(_) => agentiso_core::Code::Internal,
        }
    }
}

/// Serves a client on standard input and output until it disconnects. Nothing else may write to standard output.
pub async fn serve_stdio<B: Backend>(server: Server<B>) -> Result<(), ServeError> {
    let (read, write) = stdio_pipes();
    serve_streams(server, read, write).await
}

/// Serves a client on a pair of streams until it disconnects, then cancels its tasks.
pub async fn serve_streams<B, R, W>(server: Server<B>, read: R, write: W) -> Result<(), ServeError>
where
    B: Backend,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(LONGEST_MESSAGE);
    let served = match server.clone().serve(transport).await {
        Ok(running) => running.waiting().await.map_err(ServeError::Broke),
        // Disconnecting without a message is not an error.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(QuitReason::Closed),
        Err(error) => Err(ServeError::Began(Box::new(error))),
    };
    server.end_tasks();
    served.map(|reason| tracing::debug!(?reason, "the client disconnected"))
}
