//! Commands whose input and output are streamed.
//!
//! A stream has two halves, which can be used by two tasks. When either is dropped the connection closes, and the daemon
//! ends the command with all its children.

use std::time::Duration;

use agentiso_core::wire::{ExecControl, ExecWord, STDERR, STDOUT};
use agentiso_core::{Failure, in_clear};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::error::{broken, lost, unintelligible, unwritable};
use crate::http::{Http, failure};

/// The longest message that is read.
const LONGEST: usize = 16 << 20;
/// How long the daemon may take to accept the stream.
const BEGIN: Duration = Duration::from_secs(120);

type Socket = WebSocketStream<UnixStream>;

/// A command that runs, or is being started.
pub struct ExecStream {
    socket: Socket,
}

/// The input of a command, and its signals.
pub struct ExecInput {
    sink: SplitSink<Socket, Message>,
}

/// The output of a command, and its exit status.
pub struct ExecOutput {
    stream: SplitStream<Socket>,
}

/// An event of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecEvent {
    /// It printed to standard output.
    Stdout(Bytes),
    /// It printed to standard error.
    Stderr(Bytes),
    /// Anything else. [`ExecWord::Exit`] and [`ExecWord::Error`] are the last.
    Word(ExecWord),
}

/// Opens a stream and sends its first message.
pub(crate) async fn open(http: &Http, path: &str, spec: &impl Serialize) -> Result<ExecStream, Failure> {
    let first = in_clear(|| serde_json::to_string(spec)).map_err(|error| unwritable(&error))?;
    let connection = http.connect().await?;
    let mut request = format!("ws://localhost{path}").into_client_request().map_err(broken)?;
    let headers = request.headers_mut();
    if let Ok(name) = HeaderValue::from_str(&http.client) {
        headers.insert("user-agent", name);
    }
    if let Some(token) = &http.token
        && let Ok(value) = HeaderValue::from_str(&format!("Bearer {token}"))
    {
        headers.insert("authorization", value);
    }
    let config = WebSocketConfig::default().max_message_size(Some(LONGEST)).max_frame_size(Some(LONGEST));
    let accepted = tokio_tungstenite::client_async_with_config(request, connection, Some(config));
    let accepted = tokio::time::timeout(BEGIN, accepted)
        .await
        .map_err(|_| lost(&format!("the daemon did not answer within {} s", BEGIN.as_secs())))?;
    let mut socket = match accepted {
        Ok((socket, _)) => socket,
        Err(Error::Http(answer)) => {
            return Err(failure(answer.status(), answer.body().as_deref().unwrap_or_default()));
        }
        Err(error) => return Err(broken(error)),
    };
    socket.send(first.into()).await.map_err(broken)?;
    Ok(ExecStream { socket })
}

impl ExecStream {
    /// Its two directions.
    pub fn split(self) -> (ExecInput, ExecOutput) {
        let (sink, stream) = self.socket.split();
        (ExecInput { sink }, ExecOutput { stream })
    }
}

impl ExecInput {
    /// Sends input. A client should keep at most [`agentiso_core::wire::INPUT_WINDOW`] bytes in flight:
    /// [`ExecWord::Taken`] says how many were passed on. Errors are reported by [`ExecOutput::next`].
    pub async fn write(&mut self, bytes: impl Into<Bytes>) {
        self.send(Message::Binary(bytes.into())).await;
    }

    /// Says that there is no more input.
    pub async fn end(&mut self) {
        self.control(ExecControl::Eof(true)).await;
    }

    /// Tells the command the size of its terminal.
    pub async fn resize(&mut self, columns: u16, rows: u16) {
        self.control(ExecControl::Resize(columns, rows)).await;
    }

    /// Sends the command a signal.
    pub async fn signal(&mut self, number: i32) {
        self.control(ExecControl::Signal(number)).await;
    }

    /// Closes the stream, which ends the command. [`ExecOutput::closed`] waits until the daemon has noticed.
    pub async fn close(&mut self) {
        let _ = self.sink.close().await;
    }

    async fn control(&mut self, control: ExecControl) {
        if let Ok(text) = serde_json::to_string(&control) {
            self.send(Message::Text(text.into())).await;
        }
    }

    /// If the connection is broken, [`ExecOutput::next`] reports it.
    async fn send(&mut self, message: Message) {
        let _ = self.sink.send(message).await;
    }
}

impl ExecOutput {
    /// What the daemon says next. A connection that ends before the command does is an error.
    pub async fn next(&mut self) -> Result<ExecEvent, Failure> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Binary(message))) => {
                    let bytes = message.slice(message.len().min(1)..);
                    match message.first() {
                        Some(&STDOUT) => return Ok(ExecEvent::Stdout(bytes)),
                        Some(&STDERR) => return Ok(ExecEvent::Stderr(bytes)),
                        Some(channel) => return Err(unintelligible(format!("unknown channel {channel}"))),
                        None => {}
                    }
                }
                Some(Ok(Message::Text(text))) => {
                    return serde_json::from_str(&text).map(ExecEvent::Word).map_err(unintelligible);
                }
                Some(Ok(Message::Close(_))) | None => return Err(gone("the daemon closed it")),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(gone(&error.to_string())),
            }
        }
    }

    /// Waits until the daemon has closed the stream too.
    pub async fn closed(mut self) {
        while let Some(Ok(_)) = self.stream.next().await {}
    }
}

fn gone(why: &str) -> Failure {
    lost(&format!("the connection to the command was lost: {why}"))
}
