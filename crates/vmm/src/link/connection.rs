//! TCP connections to servers in the guest.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentiso_proto::{Channel, MAX_PAYLOAD, Request, Response};
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::exchange::Exchange;
use super::stream::{Event, Shape};
use super::{Guest, LinkError};

const CONNECTION: Shape = Shape { receives: &[Channel::Main], budget: 2 * MAX_PAYLOAD };

impl Guest {
    /// Connects to a TCP port on the guest's own loopback addresses. If nothing listens there, the error is a
    /// [`LinkError::Guest`] of kind `NotFound`.
    pub async fn connect(&self, port: u16) -> Result<(ConnectionReader, ConnectionWriter), LinkError> {
        self.needs_version(2).await?;
        self.connection(&Request::Connect { port }).await
    }

    /// Connects to a TCP port of another machine over the guest's network. If the connection is refused, the error is a
    /// [`LinkError::Guest`] of kind `NotFound`.
    pub async fn connect_to(
        &self,
        address: Ipv4Addr,
        port: u16,
    ) -> Result<(ConnectionReader, ConnectionWriter), LinkError> {
        self.needs_version(7).await?;
        self.connection(&Request::ConnectTo { address: address.octets(), port }).await
    }

    async fn connection(&self, request: &Request) -> Result<(ConnectionReader, ConnectionWriter), LinkError> {
        let place = self.connection_place().await?;
        let mut exchange = self.start(request, CONNECTION).await?;
        match exchange.next().await? {
            Event::Response(Response::Connected) => exchange.unlimited(),
            other => return Err(exchange.unexpected(&other)),
        }
        let connection =
            Arc::new(Connection { exchange, read_to_end: AtomicBool::new(false), _place: place });
        let reader = ConnectionReader { connection: Arc::clone(&connection), over: false };
        Ok((reader, ConnectionWriter { connection }))
    }
}

#[derive(Debug)]
struct Connection {
    exchange: Exchange,
    read_to_end: AtomicBool,
    _place: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Both directions are closed, so the agent closes the connection once the server has read everything.
        if self.read_to_end.load(Ordering::Relaxed) {
            self.exchange.let_go();
        }
    }
}

/// Receives from the server in the guest. Dropping it before the end resets the connection.
#[derive(Debug)]
pub struct ConnectionReader {
    connection: Arc<Connection>,
    over: bool,
}

impl ConnectionReader {
    /// The next piece, `None` at the end. Cancel-safe. A connection that was reset is an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, LinkError> {
        if self.over {
            return Ok(None);
        }
        let exchange = &self.connection.exchange;
        let event = exchange.next_or_end().await;
        if let Ok(Event::Data(_, bytes)) = event {
            return Ok(Some(bytes.into()));
        }
        self.over = true;
        match event? {
            Event::End(_) => {
                self.connection.read_to_end.store(true, Ordering::Relaxed);
                Ok(None)
            }
            other => Err(exchange.unexpected(&other)),
        }
    }
}

impl Drop for ConnectionReader {
    fn drop(&mut self) {
        if !self.over {
            let exchange = &self.connection.exchange;
            exchange.guest().cancel(exchange.stream());
        }
    }
}

/// Sends to the server in the guest. Dropping it closes this direction only.
#[derive(Debug)]
pub struct ConnectionWriter {
    connection: Arc<Connection>,
}

impl ConnectionWriter {
    /// Writes all bytes, as fast as the server reads. If the future is dropped, some of them may have been written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        let exchange = &self.connection.exchange;
        match exchange.guest().send(exchange.stream(), bytes).await {
            Err(LinkError::InputEnded) => Err(LinkError::Disconnected),
            sent => sent,
        }
    }

    /// Closes this direction.
    pub fn finish(self) {}
}

impl Drop for ConnectionWriter {
    fn drop(&mut self) {
        let exchange = &self.connection.exchange;
        exchange.guest().send_eof(exchange.stream());
    }
}
