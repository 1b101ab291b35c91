//! A client that records notifications.

use std::sync::{Arc, Mutex};

use agentiso_api::Backend;
use agentiso_api::mcp::{Server, ToolSet, serve_streams};
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam,
    ProtocolVersion,
};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::Value;

/// A client.
#[derive(Clone)]
pub struct Client {
    config: ClientConfig,
    progress: Arc<Mutex<Vec<ProgressNotificationParam>>>,
}

pub type Connected = RunningService<RoleClient, Client>;

impl Default for Client {
    fn default() -> Self {
        Self::new(ClientCapabilities::default())
    }
}

impl Client {
    fn new(capabilities: ClientCapabilities) -> Self {
        let mut config = ClientConfig::new(capabilities, Implementation::new("a test", "1"));
        config.protocol_version = ProtocolVersion::V_2025_06_18;
        Self { config, progress: Arc::default() }
    }

    /// A client with task support.
    pub fn with_tasks() -> Self {
        Self::new(ClientCapabilities::builder().enable_tasks().build())
    }

    /// The progress notifications it received.
    pub fn progress(&self) -> Vec<ProgressNotificationParam> {
        self.progress.lock().unwrap().clone()
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.progress.lock().unwrap().push(told);
    }
}

/// The lifecycle of the newest revision: no handshake.
pub fn newest() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

/// Connects a client to a server over a pair of streams.
pub async fn connect<B: Backend>(
    client: Client,
    backend: B,
    set: ToolSet,
    lifecycle: ClientLifecycleMode,
) -> Connected {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(far);
    tokio::spawn(serve_streams(Server::new(backend, set), read, write));
    client.serve_with_lifecycle(near, lifecycle).await.unwrap()
}

/// Connects a client with the default settings.
pub async fn connected<B: Backend>(backend: B) -> Connected {
    connect(Client::default(), backend, ToolSet::Standard, ClientLifecycleMode::Initialize).await
}

/// Creates the parameters of a tool call.
pub fn call(tool: &str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}
