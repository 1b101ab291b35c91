//! Commands over a WebSocket: input as it is typed, output as it is printed.
//!
//! ```text
//!  client: text   ExecSpec                       first, once
//!          binary input
//!          text   ExecControl                    {"eof":true} {"resize":[80,24]} {"signal":2}
//!  server: binary a channel's byte and output    1: output, 2: errors
//!          text   ExecWord                       {"started":{..}} at first, {"exit":{..}} or {"error":{..}} at last
//! ```

use agentiso_core::{Code, Failure};
use agentiso_engine::{Caller, Interaction, Interactive};
use agentiso_runtime::guest::{Exit, ExitStatus, ProcessControl, ProcessEvent, Stdin};
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State as Extracted};
use axum::response::Response;
use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};

use super::answer::{ErrorBody, ErrorFields};
use super::auth::Asking;
use super::router::State;

/// The byte before output.
pub const STDOUT: u8 = 1;
/// The byte before errors.
pub const STDERR: u8 = 2;

/// What to run: the first message.
pub type ExecSpec = Interaction;

/// What a client says besides input.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecControl {
    /// There is no more input.
    Eof(bool),
    /// The terminal has so many columns and rows.
    Resize(u16, u16),
    /// A signal for the command.
    Signal(i32),
}

/// What the daemon says besides output.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecWord {
    /// It runs.
    Started {},
    /// It has ended.
    Exit {
        /// Its exit code, if it had one.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Whether its time was up.
        timed_out: bool,
        /// How long it ran, in milliseconds.
        wall_ms: u64,
    },
    /// It could not be run.
    Error(ErrorFields),
}

pub(super) async fn stream(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    Path(workspace): Path<String>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade.on_upgrade(move |mut socket| async move {
        let word = match run(&state, &caller, &workspace, &mut socket).await {
            Ok(word) => word,
            Err(failure) => Some(ExecWord::Error(ErrorBody::from(&failure).error)),
        };
        if let Some(word) = word {
            // The client may have gone.
            let _ = socket.send(text(&word)).await;
        }
        let _ = socket.close().await;
    })
}

/// Runs a command to its end, or until its client goes.
async fn run(
    state: &State,
    caller: &Caller,
    workspace: &str,
    socket: &mut WebSocket,
) -> Result<Option<ExecWord>, Failure> {
    let Some(Ok(Message::Text(first))) = socket.recv().await else { return Ok(None) };
    let spec: ExecSpec = serde_json::from_str(&first).map_err(|error| {
        Failure::new(Code::InvalidArgument, format!("the first message makes no sense: {error}"))
    })?;
    let mut running = state.engine.interact(caller, workspace, spec).await?;
    let (mut sink, mut stream) = socket.split();
    if sink.send(text(&ExecWord::Started {})).await.is_err() {
        return Ok(None);
    }
    let (input, control) = (running.process.take_stdin(), running.process.control());
    let listen = listen(&mut stream, input, control);
    tokio::pin!(listen);
    let mut listening = true;
    let exit = loop {
        let event = tokio::select! {
            event = running.process.next() => event?,
            stays = &mut listen, if listening => {
                if !stays {
                    return Ok(None);
                }
                listening = false;
                continue;
            }
        };
        let (channel, bytes) = match event {
            Some(ProcessEvent::Stdout(bytes)) => (STDOUT, bytes),
            Some(ProcessEvent::Stderr(bytes)) => (STDERR, bytes),
            Some(ProcessEvent::Exited(exit)) => break exit,
            Some(_) => continue,
            None => return Err(Failure::new(Code::GuestFailed, "the command ended without a word")),
        };
        let mut message = Vec::with_capacity(bytes.len() + 1);
        message.push(channel);
        message.extend_from_slice(&bytes);
        if sink.send(Message::Binary(message.into())).await.is_err() {
            return Ok(None);
        }
    };
    Ok(Some(ended(running, &exit)))
}

/// Passes on what the client sends. Returns false when the client has gone.
async fn listen(
    stream: &mut SplitStream<&mut WebSocket>,
    mut input: Option<Stdin>,
    control: ProcessControl,
) -> bool {
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Binary(bytes) => {
                // A command that reads no more ends by itself; its client is told then.
                if let Some(stdin) = &mut input
                    && stdin.write(&bytes).await.is_err()
                {
                    input = None;
                }
            }
            Message::Text(word) => match serde_json::from_str(&word) {
                Ok(ExecControl::Eof(_)) => input = None,
                Ok(ExecControl::Resize(columns, rows)) => {
                    let _ = control.resize(columns, rows).await;
                }
                Ok(ExecControl::Signal(signal)) => {
                    let _ = control.signal(signal).await;
                }
                Err(_) => return false,
            },
            Message::Close(_) => return false,
            Message::Ping(_) | Message::Pong(_) => {}
        }
    }
    false
}

fn ended(running: Interactive, exit: &Exit) -> ExecWord {
    running.ended(exit);
    let (code, signal) = match exit.status {
        ExitStatus::Code(code) => (Some(code), None),
        ExitStatus::Signal(signal) => (None, Some(signal)),
    };
    ExecWord::Exit { code, signal, timed_out: exit.timed_out, wall_ms: exit.usage.wall_us / 1000 }
}

fn text(word: &ExecWord) -> Message {
    Message::Text(serde_json::to_string(word).unwrap_or_default().into())
}
