//! HTTP clients that share the user's token.

use agentiso_api::http::{Door, McpDoor, State, Token, router};
use agentiso_api::mcp::ToolSet;
use agentiso_api::{Bodies, EngineBackend};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::house::House;

pub const TOKEN: &str = "the-token-of-the-user";

/// The network interface of an engine.
pub struct Network {
    router: Router,
    _ending: watch::Sender<bool>,
    _shutdown: mpsc::Receiver<bool>,
}

impl Network {
    pub fn of(house: &House) -> Self {
        let (shutdown, asked) = mpsc::channel(1);
        let (end, ending) = watch::channel(false);
        let state = State {
            backend: EngineBackend::shared(&house.engine),
            door: Door::Network { token: Token::new(TOKEN.to_owned()), names: Vec::new() },
            mcp: McpDoor::new(&[], ToolSet::Standard),
            shutdown,
            bodies: Bodies::default(),
            ending,
        };
        Self { router: router(state), _ending: end, _shutdown: asked }
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Response {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json");
        if path == "/mcp" {
            request = request.header("accept", "application/json, text/event-stream");
        }
        if !headers.iter().any(|(name, _)| *name == "authorization") {
            request = request.header("authorization", format!("Bearer {TOKEN}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map_or(Body::empty(), |body| Body::from(body.to_string()));
        TowerToHyperService::new(self.router.clone()).call(request.body(body).unwrap()).await.unwrap()
    }
}

pub async fn text(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), 1 << 22).await.unwrap().to_vec()).unwrap()
}

/// How a client identifies itself.
#[derive(Clone, Debug)]
pub enum Client {
    /// With a secret, over REST.
    Rest(String),
    /// With a secret, over MCP of the newest revision.
    Secret(String),
    /// With its name, over MCP of the newest revision.
    Named(String),
    /// With its conversation, over MCP of an older revision.
    Older(String),
}

impl Client {
    /// Starts a conversation of an older revision.
    pub async fn older(network: &Network) -> Self {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "older", "version": "1"}}});
        let answer = network.send("POST", "/mcp", &[], Some(hello)).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let session = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let headers = [("mcp-session-id", session.as_str())];
        let answer = network.send("POST", "/mcp", &headers, Some(ready)).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        Self::Older(session)
    }

    /// The outcome of an action, or the code of its failure.
    pub async fn act(&self, network: &Network, action: &str, arguments: Value) -> Result<Value, String> {
        match self {
            Self::Rest(secret) => {
                let path = format!("/v1/actions/{action}");
                let headers = [("agentiso-session", secret.as_str())];
                let response = network.send("POST", &path, &headers, Some(arguments)).await;
                let is_ok = response.status() == StatusCode::OK;
                let answer: Value = serde_json::from_str(&text(response).await).unwrap();
                if is_ok { Ok(answer) } else { Err(code(&answer)) }
            }
            Self::Secret(secret) => {
                self.newest(network, "tests", &[("agentiso-session", secret)], action, arguments).await
            }
            Self::Named(name) => self.newest(network, name, &[], action, arguments).await,
            Self::Older(session) => {
                let headers = [("mcp-session-id", session.as_str())];
                tool(network, &headers, json!({"name": action, "arguments": arguments})).await
            }
        }
    }

    async fn newest(
        &self,
        network: &Network,
        name: &str,
        headers: &[(&str, &str)],
        action: &str,
        arguments: Value,
    ) -> Result<Value, String> {
        let revision =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", action)];
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let headers = [&revision, headers].concat();
        tool(network, &headers, json!({"name": action, "arguments": arguments, "_meta": meta})).await
    }

    /// The id of its session.
    pub async fn session(&self, network: &Network) -> String {
        let status = self.act(network, "server_status", json!({})).await.unwrap();
        status["session_id"].as_str().unwrap().to_owned()
    }

    /// The names of the workspaces it can see.
    pub async fn names(&self, network: &Network) -> Vec<String> {
        let listed = self.act(network, "workspace_list", json!({})).await.unwrap();
        let workspaces = listed["workspaces"].as_array().unwrap().iter();
        workspaces.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Calls a tool.
async fn tool(network: &Network, headers: &[(&str, &str)], params: Value) -> Result<Value, String> {
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let said = text(network.send("POST", "/mcp", headers, Some(call)).await).await;
    let messages = said.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let answer = messages.filter_map(|line| serde_json::from_str::<Value>(line).ok()).next_back();
    let result = answer.unwrap_or_else(|| panic!("no answer: {said}"))["result"].clone();
    let content = result["structuredContent"].clone();
    if result["isError"] == false { Ok(content) } else { Err(code(&content)) }
}

fn code(answer: &Value) -> String {
    answer["error"]["code"].as_str().unwrap_or_else(|| panic!("no code: {answer}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_token_gets_one_response() {
    let house = House::new().await;
    let network = Network::of(&house);
    let closes = |answer: &Response| answer.headers().get("connection").is_some_and(|value| value == "close");
    for (path, token) in [("/healthz", ""), ("/nowhere", ""), ("/v1/workspaces", ""), ("/v1/workspaces", "x")]
    {
        let answer = network.send("GET", path, &[("authorization", &format!("Bearer {token}"))], None).await;
        assert!(closes(&answer), "{path} {token:?}");
    }
    let answer = network.send("GET", "/v1/workspaces", &[], None).await;
    assert_eq!((answer.status(), closes(&answer)), (StatusCode::OK, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_cannot_impersonate_the_user_in_the_timeline() {
    let house = House::new().await;
    let network = Network::of(&house);
    let begun = house.engine.begin_session(agentiso_meta::SessionKind::Http, "helper").await.unwrap();
    let token = format!("Bearer {}", begun.token);
    for claimed in ["agentiso (operator)", " "] {
        let headers = [("authorization", token.as_str()), ("x-agentiso-client", claimed)];
        let body = Some(json!({"name": "no such image"}));
        network.send("POST", "/v1/actions/image_remove", &headers, body).await;
    }
    let answer = network.send("GET", "/v1/timeline", &[], None).await;
    let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    let timeline: Value = serde_json::from_slice(&bytes).unwrap();
    let clients: Vec<_> = timeline["events"].as_array().unwrap().iter().map(|one| &one["client"]).collect();
    assert_eq!(clients, ["helper", "session \"agentiso (operator)\""], "{timeline}");
}
