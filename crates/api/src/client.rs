//! A daemon behind a socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_core::action::Action;
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use crate::bodies::{limit_of, too_long};
use crate::catalogue;
use crate::http::{CLIENT, ErrorBody, ExecSpec, SessionBegun, SessionWish};
use crate::{Answer, Backend, Call};

/// The largest answer that is not a stream of events.
const LARGEST: usize = 64 << 20;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A daemon behind a socket.
#[derive(Clone)]
pub struct Client {
    socket: PathBuf,
    name: String,
    token: Option<String>,
}

/// A command that runs in a workspace, and the messages to and from it.
pub type ExecStream = WebSocketStream<UnixStream>;

impl Client {
    /// A client of the daemon at a socket, by the name it calls itself.
    pub fn new(socket: &Path, name: &str) -> Self {
        Self { socket: socket.to_owned(), name: name.to_owned(), token: None }
    }

    /// The same, as a session.
    #[must_use]
    pub fn with_token(mut self, token: String) -> Self {
        self.token = Some(token);
        self
    }

    /// Whether somebody answers at the socket.
    pub async fn is_answered(&self) -> bool {
        UnixStream::connect(&self.socket).await.is_ok()
    }

    /// Asks for an action and waits for its outcome.
    pub async fn act<A: Action>(
        &self,
        action: &A,
        progress: &Arc<dyn Progress>,
    ) -> Result<A::Outcome, Failure> {
        let arguments = match serde_json::to_value(action) {
            Ok(Value::Object(fields)) => fields,
            _ => return Err(Failure::new(Code::Internal, "an action that is no object")),
        };
        let outcome = self.call_by_name(A::ABOUT.name, &arguments, progress).await?;
        serde_json::from_value(outcome).map_err(|error| {
            Failure::new(Code::DaemonUnavailable, format!("the daemon's answer makes no sense: {error}"))
                .with_remedy("it may be of another version: agentiso daemon restart")
        })
    }

    /// Begins a session of its own.
    pub async fn begin_session(&self, mcp: bool) -> Result<SessionBegun, Failure> {
        let wish = SessionWish { client: self.name.clone(), mcp };
        let answer = self.send(Method::POST, "/v1/sessions", Some(&wish), JSON).await?;
        serde_json::from_slice(&whole(answer).await?).map_err(broken)
    }

    /// Ends the session.
    pub async fn end_session(&self) -> Result<(), Failure> {
        self.send::<()>(Method::DELETE, "/v1/sessions/current", None, JSON).await.map(drop)
    }

    /// Ends the daemon, and with `stop_machines` all machines before.
    pub async fn shut_down(&self, stop_machines: bool) -> Result<(), Failure> {
        let path = format!("/v1/shutdown?stop_machines={stop_machines}");
        self.send::<()>(Method::POST, &path, None, JSON).await.map(drop)
    }

    /// Watches an address of the daemon's that sends events: their names and data.
    pub async fn events(
        &self,
        path: &str,
    ) -> Result<impl futures_util::Stream<Item = Result<(String, Value), Failure>> + use<>, Failure> {
        Ok(events(self.send::<()>(Method::GET, path, None, EVENTS).await?))
    }

    /// Starts a command whose input and output are carried as they come.
    pub async fn exec(&self, workspace: &str, spec: &ExecSpec) -> Result<ExecStream, Failure> {
        use futures_util::SinkExt;
        let word =
            serde_json::to_string(spec).map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| unreachable(&self.socket, &error))?;
        let url = format!("ws://localhost/v1/workspaces/{}/exec/stream", encoded(workspace));
        let mut request = url.into_client_request().map_err(broken)?;
        if let Ok(name) = HeaderValue::from_str(&self.name) {
            request.headers_mut().insert("user-agent", name);
        }
        if let Some(token) = &self.token
            && let Ok(value) = HeaderValue::from_str(&format!("Bearer {token}"))
        {
            request.headers_mut().insert("authorization", value);
        }
        let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.map_err(broken)?;
        socket.send(word.into()).await.map_err(broken)?;
        Ok(socket)
    }

    async fn call_by_name(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        progress: &Arc<dyn Progress>,
    ) -> Result<Value, Failure> {
        let path = format!("/v1/actions/{name}");
        let arguments = serde_json::to_vec(arguments).map_err(broken)?;
        // The daemon would refuse it before it has read it, and the connection would break.
        if arguments.len() > limit_of(name) {
            return Err(too_long(limit_of(name)));
        }
        let answer = self.send_bytes(Method::POST, &path, arguments, EVENTS).await?;
        let mut events = std::pin::pin!(events(answer));
        while let Some(event) = events.next().await {
            let (name, data) = event?;
            match name.as_str() {
                "progress" => tell(progress.as_ref(), &data),
                "result" => return Ok(data),
                "error" => return Err(serde_json::from_value::<ErrorBody>(data).map_err(broken)?.into()),
                _ => {}
            }
        }
        Err(Failure::new(Code::DaemonUnavailable, "the daemon ended before it answered")
            .with_remedy("look at the workspace before you try again; agentiso daemon status names its log"))
    }

    async fn send<T: Serialize>(
        &self,
        method: Method,
        path: &str,
        body: Option<&T>,
        accept: &str,
    ) -> Result<Response<Incoming>, Failure> {
        let body = body.map(serde_json::to_vec).transpose().map_err(broken)?.unwrap_or_default();
        self.send_bytes(method, path, body, accept).await
    }

    /// Sends a request over a connection of its own: a socket of this host costs next to nothing, and a daemon that was
    /// started again is found.
    async fn send_bytes(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        accept: &str,
    ) -> Result<Response<Incoming>, Failure> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| unreachable(&self.socket, &error))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(USER_AGENT, &self.name)
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, JSON);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}")).header(CLIENT, &self.name);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(broken)?;
        let answer = sender.send_request(request).await.map_err(broken)?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        match serde_json::from_slice::<ErrorBody>(&whole(answer).await?) {
            Ok(body) => Err(body.into()),
            Err(_) => Err(Failure::new(Code::DaemonUnavailable, format!("the daemon answered {status}"))),
        }
    }
}

/// All of an answer.
async fn whole(answer: Response<Incoming>) -> Result<Bytes, Failure> {
    let limited = http_body_util::Limited::new(answer.into_body(), LARGEST);
    let collected = limited.collect().await.map_err(|error| {
        Failure::new(Code::DaemonUnavailable, format!("the connection to the daemon broke: {error}"))
    })?;
    Ok(collected.to_bytes())
}

impl Backend for Client {
    async fn call_for(&self, client: &str, call: Call) -> Result<Answer, Failure> {
        Self { name: client.to_owned(), ..self.clone() }.call(call).await
    }

    async fn call(&self, call: Call) -> Result<Answer, Failure> {
        let structured = self.call_by_name(call.action, &call.arguments, &call.progress).await?;
        let text = match catalogue::find(call.action) {
            Some(entry) => entry.text(&structured)?,
            None => structured.to_string(),
        };
        Ok(Answer { structured, text })
    }
}

/// Reads server-sent events off an answer.
fn events(answer: Response<Incoming>) -> impl futures_util::Stream<Item = Result<(String, Value), Failure>> {
    async_stream::try_stream! {
        let mut body = answer.into_body();
        let mut buffer = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(piece) = frame.map_err(broken)?.into_data() {
                buffer.extend_from_slice(&piece);
            }
            while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = buffer.drain(..end + 2).collect();
                if let Some(event) = event(&String::from_utf8_lossy(&block))? {
                    yield event;
                }
            }
        }
    }
}

/// One event; `None` for a comment that only keeps the connection open.
fn event(block: &str) -> Result<Option<(String, Value)>, Failure> {
    let (mut name, mut data) = (String::new(), String::new());
    for line in block.lines() {
        if let Some(value) = line.strip_prefix("event:") {
            value.trim_start().clone_into(&mut name);
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push_str(value.strip_prefix(' ').unwrap_or(value));
        }
    }
    if data.is_empty() {
        return Ok(None);
    }
    Ok(Some((name, serde_json::from_str(&data).map_err(broken)?)))
}

fn tell(progress: &dyn Progress, word: &Value) {
    if let Some(step) = word["step"].as_str() {
        progress.step(step, word["total"].as_u64());
    } else if let Some(amount) = word["advance"].as_u64() {
        progress.advance(amount);
    } else if let Some(remark) = word["done"].as_str() {
        progress.done(remark);
    }
}

fn encoded(word: &str) -> String {
    use std::fmt::Write as _;
    word.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(byte.into());
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

fn unreachable(socket: &Path, error: &dyn std::error::Error) -> Failure {
    let message =
        format!("the daemon cannot be reached at {}: {}", socket.display(), agentiso_core::chain(error));
    Failure::new(Code::DaemonUnavailable, message).with_remedy("agentiso daemon start")
}

fn broken(error: impl std::error::Error) -> Failure {
    let message = format!("the connection to the daemon broke: {}", agentiso_core::chain(&error));
    Failure::new(Code::DaemonUnavailable, message)
        .with_remedy("look at the workspace before you try again; agentiso daemon status names its log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_comments_are_not() {
        assert_eq!(event(": keep\n\n").unwrap(), None);
        let read = event("event: result\ndata: {\"a\":1}\n\n").unwrap();
        assert_eq!(read, Some(("result".to_owned(), serde_json::json!({ "a": 1 }))));
        assert!(event("event: x\ndata: {\n\n").is_err());
    }

    #[test]
    fn hostile_names_cannot_leave_their_place_in_an_address() {
        assert_eq!(encoded("web-1"), "web-1");
        assert_eq!(encoded("a/../b?c#d e"), "a%2F..%2Fb%3Fc%23d%20e");
    }
}
