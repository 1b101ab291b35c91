//! The protocol over HTTP: without sessions for the newest revision, with them for the older ones.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentiso_core::Failure;
use agentiso_core::wire::{body_limit, body_too_long};
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::stdio::LONGEST_MESSAGE;
use super::{early, tools};
use crate::bodies::{Bodies, Held};
use crate::http::status_of;

/// After so long without a message a session of an older client is over; it may begin another.
const IDLE: Duration = Duration::from_secs(3600);
/// So many sessions are kept; the one that was used least recently makes room for another.
const MOST_SESSIONS: usize = 64;
/// A client that has gone is noticed when something is next sent to it, and only then is its call ended.
const HEARTBEAT: Duration = Duration::from_secs(2);
const SESSION: &str = "mcp-session-id";

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
    /// The sessions by when they were last used, the oldest first.
    used: Arc<Mutex<VecDeque<Arc<str>>>>,
    config: StreamableHttpServerConfig,
}

/// As much of a message as must be known before it is carried out.
#[derive(Default, Deserialize)]
pub(crate) struct Message {
    #[serde(default)]
    method: String,
    #[serde(default)]
    params: Params,
}

#[derive(Default, Deserialize)]
struct Params {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "_meta")]
    meta: Meta,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    client: Option<ClientInfo>,
}

#[derive(Deserialize)]
struct ClientInfo {
    name: String,
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
        Self { sessions: Arc::new(sessions), used: Arc::default(), config }
    }

    /// Answers a request for a server. Requests to one endpoint share the sessions of older clients, so that each can be
    /// given a server that knows who is calling.
    pub async fn answer<S: ServerHandler + Clone + Sync>(
        &self,
        server: S,
        bodies: &Bodies,
        request: Request<Body>,
    ) -> Response<Body> {
        self.answer_with(bodies, request, |_| std::future::ready(Ok(server))).await
    }

    /// The same, with a server that depends on what is asked for.
    pub(crate) async fn answer_with<S: ServerHandler + Clone + Sync, F>(
        &self,
        bodies: &Bodies,
        request: Request<Body>,
        server: impl FnOnce(&Message) -> F,
    ) -> Response<Body>
    where
        F: Future<Output = Result<S, Failure>>,
    {
        let session = session_of(request.headers());
        if let Some(session) = &session {
            self.touch(session).await;
        }
        match *request.method() {
            Method::POST => {
                let (parts, body) = request.into_parts();
                let is_json = parts
                    .headers
                    .get(CONTENT_TYPE)
                    .is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
                let (held, message) = match self.read(&parts.headers, bodies, body, is_json).await {
                    Ok(read) => read,
                    Err(refusal) => return refusal,
                };
                let service = match server(&message).await {
                    Ok(server) => self.service(server),
                    Err(failure) => return refused(&failure),
                };
                let is_small = held.is_small();
                let Held { bytes, part } = held;
                let part = bodies.while_working(part);
                let request = Request::from_parts(parts, Body::from(bytes));
                let answer = async move {
                    let _part = part;
                    on_its_own(is_small, service.handle(request)).await
                };
                let answer = match message.begins_conversation() {
                    // Its headers say which session it is.
                    true => answer.await.map(Body::new),
                    false => early::headers(answer).await,
                };
                if let Some(begun) = session_of(answer.headers()) {
                    self.touch(&begun).await;
                }
                match answer.status() {
                    // What is JSON and no message is the sender's mistake, not one of its kind.
                    StatusCode::UNSUPPORTED_MEDIA_TYPE if is_json => {
                        refusal(StatusCode::BAD_REQUEST, -32600, "the body is not a JSON-RPC message", None)
                    }
                    _ => answer,
                }
            }
            Method::DELETE => {
                if let Some(session) = &session
                    && !self.sessions.has_session(session).await.unwrap_or(false)
                {
                    return refusal(StatusCode::NOT_FOUND, -32001, "there is no such session", None);
                }
                let service = match server(&Message::default()).await {
                    Ok(server) => self.service(server),
                    Err(failure) => return refused(&failure),
                };
                let mut answer = service.handle(request).await.map(Body::new);
                if answer.status() == StatusCode::ACCEPTED {
                    // By then it is done, and clients take nothing else for done.
                    *answer.status_mut() = StatusCode::NO_CONTENT;
                }
                answer
            }
            _ => match server(&Message::default()).await {
                Ok(server) => self.service(server).handle(request).await.map(Body::new),
                Err(failure) => refused(&failure),
            },
        }
    }

    fn service<S: ServerHandler + Clone + Sync>(
        &self,
        server: S,
    ) -> StreamableHttpService<S, LocalSessionManager> {
        StreamableHttpService::new(move || Ok(server.clone()), self.sessions.clone(), self.config.clone())
    }

    /// Reads a message that is no longer than what it is for allows.
    async fn read(
        &self,
        headers: &HeaderMap,
        bodies: &Bodies,
        body: Body,
        is_json: bool,
    ) -> Result<(Held, Message), Response<Body>> {
        let held = bodies.read(headers, body, LONGEST_MESSAGE).await.map_err(|failure| refused(&failure))?;
        if is_json && let Err(error) = held.parse::<IgnoredAny>().await {
            let why = format!("the body is not JSON: {error}");
            return Err(refusal(StatusCode::BAD_REQUEST, -32700, &why, None));
        }
        // What is no message is refused by the library.
        let message = held.parse::<Message>().await.unwrap_or_default();
        if !held.is_small() && held.bytes.len() > message.limit() {
            return Err(refused(&body_too_long(message.limit())));
        }
        Ok((held, message))
    }

    /// Notes that a session is used, and ends the oldest if there are too many.
    async fn touch(&self, session: &Arc<str>) {
        let known = self.sessions.has_session(session).await.unwrap_or(false);
        let oldest = {
            let mut used = self.used();
            used.retain(|other| other != session);
            if known {
                used.push_back(Arc::clone(session));
            }
            if used.len() > MOST_SESSIONS { used.pop_front() } else { None }
        };
        if let Some(oldest) = oldest {
            // One that has ended by itself is gone already.
            let _ = self.sessions.close_session(&oldest).await;
        }
    }

    fn used(&self) -> MutexGuard<'_, VecDeque<Arc<str>>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every open stream, so that the HTTP server can stop.
    pub fn close(&self) {
        self.config.cancellation_token.cancel();
    }
}

impl Message {
    /// Whether it is the first of an older client, which gets a session of the protocol's for it.
    pub fn begins_conversation(&self) -> bool {
        self.method == "initialize"
    }

    /// Whether it asks for something that a session may or may not do.
    pub fn needs_session(&self) -> bool {
        self.method == "tools/call"
            || ["resources/", "tasks/"].iter().any(|kind| self.method.starts_with(kind))
    }

    /// What a client of the newest revision calls itself.
    pub fn client(&self) -> Option<&str> {
        self.params.meta.client.as_ref().map(|client| client.name.as_str())
    }

    fn limit(&self) -> usize {
        if self.method != "tools/call" {
            return body_limit("");
        }
        let forms = tools::find(&self.params.name).map(|tool| tool.forms.iter());
        forms
            .into_iter()
            .flatten()
            .map(|(_, form, _)| body_limit(form.action))
            .max()
            .unwrap_or(body_limit(""))
    }
}

/// The protocol's own session that a request or an answer names.
pub(crate) fn session_of(headers: &HeaderMap) -> Option<Arc<str>> {
    headers.get(SESSION).and_then(|value| value.to_str().ok()).map(Arc::from)
}

/// Runs the first step, in which the library parses the body, so that other tasks do not wait for it.
async fn on_its_own<T>(is_small: bool, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut is_first = !is_small && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    poll_fn(|context| match std::mem::take(&mut is_first) {
        true => tokio::task::block_in_place(|| work.as_mut().poll(context)),
        false => work.as_mut().poll(context),
    })
    .await
}

fn refused(failure: &Failure) -> Response<Body> {
    let status = status_of(failure.code());
    let data = json!({"code": failure.code().as_str(), "remedy": failure.remedy()});
    refusal(status, -32600, failure.message(), Some(data))
}

/// An error in the protocol's own form, for a request that has no number.
fn refusal(status: StatusCode, code: i32, message: &str, data: Option<Value>) -> Response<Body> {
    let mut error = json!({"code": code, "message": message});
    if let Some(data) = data {
        error["data"] = data;
    }
    let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
