//! The protocol over HTTP.

use agentiso_api::mcp::{Allowed, Endpoint, Server, ToolSet};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use rmcp::model::ProtocolVersion;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;

use crate::client::{Client, Connected, call, newest};
use crate::fake::{Fake, Reply};

/// A server on a socket in a directory of its own.
struct Served {
    directory: TempDir,
    endpoint: Endpoint,
}

impl Served {
    fn new(fake: &Fake) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::new(Allowed::default());
        let service = endpoint.service(Server::new(fake.clone(), ToolSet::Standard));
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let router = Router::new().route_service("/mcp", service);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { directory, endpoint }
    }

    async fn connect(&self, client: Client, lifecycle: ClientLifecycleMode) -> Connected {
        let socket = self.directory.path().join("socket");
        let transport =
            StreamableHttpClientTransport::from_unix_socket(socket.to_str().unwrap(), "http://localhost/mcp");
        client.serve_with_lifecycle(transport, lifecycle).await.unwrap()
    }
}

#[tokio::test]
async fn the_newest_revision_works_without_a_session() {
    let fake = Fake::default();
    fake.reply("workspace_create", Reply::Reports);
    let served = Served::new(&fake);
    let handler = Client::default();
    let client = served.connect(handler.clone(), newest()).await;
    assert_eq!(client.peer_info().unwrap().protocol_version, ProtocolVersion::V_2026_07_28);
    assert!(client.list_all_tools().await.unwrap().len() > 30);
    let result = client.call_tool(call("workspace_create", json!({"name": "dev"}))).await.unwrap();
    assert_eq!(result.is_error, Some(false));
    assert_eq!(fake.calls(), [("workspace_create", json!({"name": "dev"}))]);
    assert_eq!(handler.progress().last().unwrap().progress, 102.0);
}

#[tokio::test]
async fn an_older_client_has_a_session() {
    let fake = Fake::default();
    let served = Served::new(&fake);
    let client = served.connect(Client::default(), ClientLifecycleMode::Initialize).await;
    assert_eq!(client.peer_info().unwrap().protocol_version, ProtocolVersion::V_2025_06_18);
    let result = client.call_tool(call("workspace_list", json!({}))).await.unwrap();
    assert_eq!(result.is_error, Some(false));
}

#[tokio::test]
async fn a_call_that_is_taken_back_is_dropped() {
    let fake = Fake::default();
    fake.reply("exec", Reply::Hangs);
    let served = Served::new(&fake);
    for lifecycle in [ClientLifecycleMode::Initialize, newest()] {
        let client = served.connect(Client::default(), lifecycle).await;
        let pending = tokio::spawn({
            let peer = client.peer().clone();
            async move { peer.call_tool_once(call("exec", json!({"workspace_id": "a", "command": "b"}))).await }
        });
        fake.begun().await;
        pending.abort();
        fake.dropped().await;
    }
}

#[tokio::test]
async fn closing_the_endpoint_drops_what_is_being_done() {
    let fake = Fake::default();
    fake.reply("exec", Reply::Hangs);
    let served = Served::new(&fake);
    let client = served.connect(Client::default(), newest()).await;
    let pending = tokio::spawn({
        let peer = client.peer().clone();
        async move { peer.call_tool_once(call("exec", json!({"workspace_id": "a", "command": "b"}))).await }
    });
    fake.begun().await;
    served.endpoint.close();
    fake.dropped().await;
    assert!(pending.await.unwrap().is_err());
}

fn greeting() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}})
}

async fn post(allowed: Allowed, headers: &[(&str, &str)], body: String) -> Response {
    let service = Endpoint::new(allowed).service(Server::new(Fake::default(), ToolSet::Core));
    let mut request = Request::post("/mcp")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    service.handle(request.body(Body::from(body)).unwrap()).await.map(Body::new)
}

#[tokio::test]
async fn only_loopback_names_and_configured_ones_are_answered() {
    let configured = || Allowed {
        hosts: vec!["agents.example".to_owned()],
        origins: vec!["https://agents.example:443".to_owned()],
    };
    for (allowed, headers, status) in [
        (Allowed::default(), vec![("host", "localhost:7777")], StatusCode::OK),
        (Allowed::default(), vec![("host", "127.0.0.1")], StatusCode::OK),
        (Allowed::default(), vec![("host", "[::1]:7777")], StatusCode::OK),
        (Allowed::default(), vec![("host", "evil.example")], StatusCode::FORBIDDEN),
        (Allowed::default(), vec![("host", "localhost.evil.example")], StatusCode::FORBIDDEN),
        (
            Allowed::default(),
            vec![("host", "localhost"), ("origin", "http://localhost:3000")],
            StatusCode::OK,
        ),
        (
            Allowed::default(),
            vec![("host", "localhost"), ("origin", "http://evil.example")],
            StatusCode::FORBIDDEN,
        ),
        (Allowed::default(), vec![("host", "localhost"), ("origin", "null")], StatusCode::FORBIDDEN),
        (configured(), vec![("host", "agents.example")], StatusCode::OK),
        (
            configured(),
            vec![("host", "agents.example"), ("origin", "https://agents.example")],
            StatusCode::OK,
        ),
        (
            configured(),
            vec![("host", "agents.example"), ("origin", "https://agents.example:8443")],
            StatusCode::FORBIDDEN,
        ),
    ] {
        let response = post(allowed, &headers, greeting().to_string()).await;
        assert_eq!(response.status(), status, "{headers:?}");
    }
}

#[tokio::test]
async fn what_is_not_a_message_is_refused() {
    for body in ["", "{", "[]", "null", "{\"jsonrpc\":\"2.0\"}", "\u{0}\u{1}"] {
        let response = post(Allowed::default(), &[("host", "localhost")], body.to_owned()).await;
        assert!(response.status().is_client_error(), "{body:?}: {}", response.status());
        to_bytes(response.into_body(), 1 << 16).await.unwrap();
    }
}
