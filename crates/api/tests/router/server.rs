//! The router over a fake, called directly or through a socket.

use std::sync::Arc;

use agentiso_api::http::{Door, McpDoor, State, Token, router};
use agentiso_api::mcp::ToolSet;
use agentiso_api::{Bodies, SharedBackend};
use agentiso_client::Client;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::fake::{Fake, Log};

/// The user's token.
pub const TOKEN: &str = "token-of-the-user";

/// A router over a fake.
pub struct Server {
    pub fake: Arc<Fake>,
    pub log: Arc<Log>,
    pub end: watch::Sender<bool>,
    pub shutdown: mpsc::Receiver<bool>,
    router: Router,
    socket: Option<(TempDir, JoinHandle<()>)>,
}

impl Server {
    /// As the daemon serves its socket.
    pub fn at_socket(fake: Fake) -> Self {
        let mut server = Self::at(Door::Socket, fake);
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
        let router = server.router.clone();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        server.socket = Some((dir, serving));
        server
    }

    /// As the daemon serves the network.
    pub fn at_network(fake: Fake) -> Self {
        let token = Token::new(TOKEN.to_owned());
        Self::at(Door::Network { token, names: vec!["box.example".to_owned()] }, fake)
    }

    fn at(door: Door, fake: Fake) -> Self {
        let (shut_down, shutdown) = mpsc::channel(1);
        let (end, ending) = watch::channel(false);
        let fake = Arc::new(fake);
        let state = State {
            backend: Arc::clone(&fake) as Arc<dyn SharedBackend>,
            door,
            mcp: McpDoor::new(&[], ToolSet::Standard),
            shutdown: shut_down,
            bodies: Bodies::default(),
            ending,
        };
        let log = Arc::clone(&fake.log);
        Self { fake, log, end, shutdown, router: router(state), socket: None }
    }

    /// A client at the socket.
    pub fn client(&self) -> Client {
        let (dir, _) = self.socket.as_ref().unwrap();
        Client::new(&dir.path().join("socket"), "tests/1")
    }

    /// Sends a request without a connection.
    pub async fn send(&self, request: Request<Body>) -> Response {
        TowerToHyperService::new(self.router.clone()).call(request).await.unwrap()
    }

    /// The answer to a request of the user's, or to one with other headers.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.send(request.body(Body::from(body.to_owned())).unwrap()).await;
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(to_bytes(body, 1 << 22).await.unwrap().to_vec()).unwrap();
        let json = serde_json::from_str(&text).unwrap_or_default();
        Answer { status: parts.status.as_u16(), headers: parts.headers, text, json }
    }

    /// What a request of the user's to the network is answered.
    pub async fn as_user(&self, method: &str, path: &str, body: &str) -> Answer {
        let token = format!("Bearer {TOKEN}");
        self.ask(method, path, &[("host", "localhost"), ("authorization", &token)], body).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((_, serving)) = &self.socket {
            serving.abort();
        }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: axum::http::HeaderMap,
    pub text: String,
    /// Null if it is not JSON.
    pub json: Value,
}

impl Answer {
    /// The code of the error it reports.
    pub fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}
