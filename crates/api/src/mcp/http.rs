//! The protocol over HTTP: without sessions for the newest revision, with them for the older ones.

use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::Server;
use super::stdio::LONGEST_MESSAGE;
use crate::Backend;

/// After so long without a message a session of an older client is over; it may begin another.
const IDLE: Duration = Duration::from_secs(3600);

/// A client that has gone is noticed when something is next sent to it, and only then is its call ended.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// From where requests are answered, beside loopback names: whoever makes a browser believe that their host is this
/// machine gets nothing.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Host names, with a port or without, that requests may be for.
    pub hosts: Vec<String>,
    /// Origins, `https://example.com:443`, whose pages may send requests.
    pub origins: Vec<String>,
}

/// The `/mcp` of an HTTP server.
#[derive(Clone)]
pub struct Endpoint {
    sessions: Arc<LocalSessionManager>,
    config: StreamableHttpServerConfig,
}

impl Endpoint {
    /// An endpoint that answers requests from loopback names, and from what else is allowed.
    pub fn new(allowed: Allowed) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config = SessionConfig::default();
        sessions.session_config.keep_alive = Some(IDLE);
        let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let loopback_origins = ["http", "https"].into_iter().flat_map(|scheme| {
            ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{scheme}://{host}:*"))
        });
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(loopback.into_iter().chain(allowed.hosts))
            .with_allowed_origins(loopback_origins.chain(allowed.origins))
            .enforce_origin_validation()
            .with_sse_keep_alive(Some(HEARTBEAT))
            .with_max_request_body_bytes(LONGEST_MESSAGE);
        Self { sessions: Arc::new(sessions), config }
    }

    /// The service that answers for a server. Services of one endpoint share the sessions of older clients, so that
    /// each request can be given one that knows who is calling.
    pub fn service<B: Backend>(
        &self,
        server: Server<B>,
    ) -> StreamableHttpService<Server<B>, LocalSessionManager> {
        StreamableHttpService::new(move || Ok(server.clone()), self.sessions.clone(), self.config.clone())
    }

    /// Ends every open stream, so that the HTTP server can stop.
    pub fn close(&self) {
        self.config.cancellation_token.cancel();
    }
}
