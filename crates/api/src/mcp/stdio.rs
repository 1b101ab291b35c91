//! The protocol over standard input and output, or any pair of streams.

use rmcp::ServiceExt;
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Server;
use crate::Backend;

/// The largest file that can be written in one call, in base64, and room around it.
pub(super) const LONGEST_MESSAGE: usize = 48 << 20;

/// Why a connection ended that should not have.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client did not begin as the protocol says.
    #[error("the client did not begin as the protocol says")]
    Began(#[source] Box<ServerInitializeError>),
    /// The connection broke.
    #[error("the connection broke")]
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

/// Serves a client on standard input and output until it goes away. Nothing else may be written to standard output.
pub async fn serve_stdio<B: Backend>(server: Server<B>) -> Result<(), ServeError> {
    let (read, write) = stdio_pipes();
    serve_streams(server, read, write).await
}

/// Serves a client on a pair of streams until it goes away; what it has left running is ended.
pub async fn serve_streams<B, R, W>(server: Server<B>, read: R, write: W) -> Result<(), ServeError>
where
    B: Backend,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(LONGEST_MESSAGE);
    let served = match server.clone().serve(transport).await {
        Ok(running) => running.waiting().await.map_err(ServeError::Broke),
        // Whoever comes and goes without a word has done nothing wrong.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(QuitReason::Closed),
        Err(error) => Err(ServeError::Began(Box::new(error))),
    };
    server.end_tasks();
    served.map(|reason| tracing::debug!(?reason, "the client has gone"))
}
