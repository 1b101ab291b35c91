//! MCP over HTTP.

use agentiso_api::Bodies;
use agentiso_api::mcp::{Allowed, Endpoint, Server, ToolSet};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use axum::routing::any;
use futures_util::StreamExt;
use rmcp::model::ProtocolVersion;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;

use crate::client::{Client, Connected, call, newest};
use crate::fake::{Fake, Reply};

/// A server on a socket in its own directory.
struct Served {
    directory: TempDir,
    endpoint: Endpoint,
}

impl Served {
    fn new(fake: &Fake) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::new(Allowed::default());
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let (server, answering) = (Server::new(fake.clone(), ToolSet::Standard), endpoint.clone());
        let answer = move |request: Request<Body>| {
            let (server, answering) = (server.clone(), answering.clone());
            async move { answering.answer(server, &Bodies::default(), request).await }
        };
        let router = Router::new().route("/mcp", any(answer));
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
    assert!(client.list_all_tools().await.unwrap().len() > 20);
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
async fn a_cancelled_call_is_dropped() {
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
async fn closing_the_endpoint_drops_running_calls() {
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
    post_to(&Endpoint::new(allowed), &Fake::default(), headers, body).await
}

async fn post_to(endpoint: &Endpoint, fake: &Fake, headers: &[(&str, &str)], body: String) -> Response {
    let server = Server::new(fake.clone(), ToolSet::Core);
    let mut request = Request::post("/mcp")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    endpoint.answer(server, &Bodies::default(), request.body(Body::from(body)).unwrap()).await
}

/// The complete body of a response.
async fn text(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), 1 << 22).await.unwrap().to_vec()).unwrap()
}

const NEWEST: &[(&str, &str)] =
    &[("host", "localhost"), ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")];

/// An exec call in the newest revision.
fn newest_exec(progress_token: Option<u32>) -> String {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "a test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(token) = progress_token {
        meta["progressToken"] = json!(token);
    }
    let arguments = json!({"workspace_id": "a", "command": "b"});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "exec", "arguments": arguments, "_meta": meta}})
    .to_string()
}

#[tokio::test(start_paused = true)]
async fn headers_are_sent_before_the_outcome() {
    let fake = Fake::default();
    fake.reply("exec", Reply::Hangs);
    let headers = [NEWEST, &[("mcp-name", "exec")]].concat();
    let endpoint = Endpoint::new(Allowed::default());
    let response = post_to(&endpoint, &fake, &headers, newest_exec(None)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    for _ in 0..3 {
        assert_eq!(body.next().await.unwrap().unwrap(), ":\n\n");
    }
    fake.release();
    let mut rest = Vec::new();
    while let Some(piece) = body.next().await {
        rest.extend_from_slice(&piece.unwrap());
    }
    let rest = String::from_utf8(rest).unwrap();
    assert!(rest.contains("structuredContent"), "{rest}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_before_the_outcome_cancels_the_call() {
    let fake = Fake::default();
    fake.reply("exec", Reply::Hangs);
    let headers = [NEWEST, &[("mcp-name", "exec")]].concat();
    let response = post_to(&Endpoint::new(Allowed::default()), &fake, &headers, newest_exec(None)).await;
    fake.begun().await;
    drop(response);
    fake.dropped().await;
}

/// Reads a response until it contains `most` progress notifications.
async fn heartbeats(response: Response, most: usize) -> Vec<f64> {
    let mut body = response.into_body().into_data_stream();
    let mut said = String::new();
    let mut told = Vec::new();
    while told.len() < most {
        said.push_str(&String::from_utf8_lossy(&body.next().await.unwrap().unwrap()));
        let messages =
            said.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        told = messages.filter_map(|message| message["params"]["progress"].as_f64()).collect();
    }
    told
}

#[tokio::test(start_paused = true)]
async fn a_silent_call_gets_heartbeats_in_both_revisions() {
    let fake = Fake::default();
    fake.reply("exec", Reply::Hangs);
    let endpoint = Endpoint::new(Allowed::default());
    let headers = [NEWEST, &[("mcp-name", "exec")]].concat();
    let newest = post_to(&endpoint, &fake, &headers, newest_exec(Some(7))).await;

    let local = ("host", "localhost");
    let begun = post_to(&endpoint, &fake, &[local], greeting().to_string()).await;
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let in_session = [local, ("mcp-session-id", session.as_str())];
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(
        post_to(&endpoint, &fake, &in_session, ready.to_string()).await.status(),
        StatusCode::ACCEPTED
    );
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "exec",
        "arguments": {"workspace_id": "a", "command": "b"}, "_meta": {"progressToken": 8}}});
    let older = post_to(&endpoint, &fake, &in_session, call.to_string()).await;

    for response in [newest, older] {
        let told = heartbeats(response, 4).await;
        assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "{told:?}");
    }
}

#[tokio::test]
async fn an_ended_session_is_gone_and_the_oldest_makes_room_for_a_new_one() {
    let (endpoint, fake) = (Endpoint::new(Allowed::default()), Fake::default());
    let local = ("host", "localhost");
    let mut sessions = Vec::new();
    for _ in 0..70 {
        let response = post_to(&endpoint, &fake, &[local], greeting().to_string()).await;
        sessions.push(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
    }
    let end = |session: String| {
        let request = Request::delete("/mcp").header("host", "localhost").header("mcp-session-id", session);
        let (endpoint, server) = (endpoint.clone(), Server::new(Fake::default(), ToolSet::Core));
        async move {
            endpoint.answer(server, &Bodies::default(), request.body(Body::empty()).unwrap()).await.status()
        }
    };
    assert_eq!(end(sessions[0].clone()).await, StatusCode::NOT_FOUND);
    assert_eq!(end(sessions[69].clone()).await, StatusCode::NO_CONTENT);
    assert_eq!(end(sessions[69].clone()).await, StatusCode::NOT_FOUND);
    let after = [local, ("mcp-session-id", sessions[69].as_str())];
    let response = post_to(&endpoint, &fake, &after, greeting().to_string()).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_length_of_a_message_is_limited_by_its_tool() {
    let long = "x".repeat(2 << 20);
    for (tool, field, status) in [
        ("exec_kill", "workspace_id", StatusCode::PAYLOAD_TOO_LARGE),
        ("snapshot", "name", StatusCode::PAYLOAD_TOO_LARGE),
        ("there_is_none", "a", StatusCode::PAYLOAD_TOO_LARGE),
        ("file_write", "content", StatusCode::BAD_REQUEST),
    ] {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"arguments": {field: long}, "name": tool}});
        // Without a session it is rejected too, but only after it was read.
        let response = post(Allowed::default(), &[("host", "localhost")], call.to_string()).await;
        assert_eq!(response.status(), status, "{tool}: {}", text(response).await);
    }
}

#[tokio::test]
async fn only_loopback_and_configured_host_names_are_accepted() {
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
async fn bodies_that_are_not_messages_are_rejected() {
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("[]", -32600),
        ("null", -32600),
        ("{\"jsonrpc\":\"2.0\"}", -32600),
        ("\u{0}\u{1}", -32700),
    ] {
        let response = post(Allowed::default(), &[("host", "localhost")], body.to_owned()).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{body:?}");
        let error: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(error["error"]["code"], code, "{body:?}");
    }
}
