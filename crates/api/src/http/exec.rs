//! Commands over a WebSocket: input as it is typed, output as it is printed.
//!
//! The messages are in [`agentiso_core::wire`].
//!
//! Input waits for the command in a queue of a few messages and no more than [`INPUT_WINDOW`] bytes. Who sends more at
//! once than that, in pieces of [`INPUT_PIECE`], cannot be heard until there is room: signals wait behind input. A message
//! of input that is longer than [`INPUT_WINDOW`], or a first message longer than [`LONGEST_SPEC`], ends the connection.

use std::sync::Arc;

use agentiso_core::ports::link::{Exit, ExitStatus, ProcessControl, ProcessEvent, Stdin, Usage};
use agentiso_core::wire::{
    ErrorFields, ExecControl, ExecExit, ExecSpec, ExecUsage, ExecWord, INPUT_PIECE, INPUT_WINDOW, STDERR,
    STDOUT,
};
use agentiso_core::{Code, Failure};
use agentiso_engine::{Caller, Interactive, NotStarted};
use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State as Extracted};
use axum::response::Response;
use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::auth::Asking;
use super::router::State;

/// The longest first message: a command of 2 MiB whose every byte JSON writes as two, its variables and the rest.
const LONGEST_SPEC: usize = 5 << 20;

pub(super) async fn stream(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    Path(workspace): Path<String>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let upgrade = upgrade.max_message_size(LONGEST_SPEC).max_frame_size(LONGEST_SPEC);
    upgrade.on_upgrade(move |mut socket| async move {
        let word = match run(&state, &caller, &workspace, &mut socket).await {
            Ok(word) => word,
            Err(NotStarted { failure, refused }) => {
                Some(ExecWord::Error { fields: ErrorFields::from(&failure), refused })
            }
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
) -> Result<Option<ExecWord>, NotStarted> {
    let first = match socket.recv().await {
        Some(Ok(Message::Text(first))) => first,
        Some(Err(error)) => {
            let message = format!("the first message could not be read: {error}");
            return Err(Failure::new(Code::InvalidArgument, message)
                .with_remedy("write a long script to a file in the workspace and run that")
                .into());
        }
        _ => return Ok(None),
    };
    let spec: ExecSpec = serde_json::from_str(&first).map_err(|error| {
        Failure::new(Code::InvalidArgument, format!("the first message makes no sense: {error}"))
    })?;
    let report_input = spec.report_input && spec.stdin && spec.tty.is_none();
    let mut running = state.engine.interact(caller, workspace, spec).await?;
    // An older agent cannot; its client is told.
    let reports_input = report_input && running.process.control().report_input().await.is_ok();
    let (mut sink, mut stream) = socket.split();
    let started = ExecWord::Started {
        workspace_id: running.workspace_id.clone(),
        workspace: running.workspace_name.clone(),
        reports_input,
    };
    if sink.send(text(&started)).await.is_err() {
        return Ok(None);
    }
    let (pieces, waiting) = input();
    let (took, mut taken) = mpsc::unbounded_channel();
    let stdin = running.process.take_stdin();
    let listen = listen(&mut stream, stdin.is_some().then_some(pieces), running.process.control());
    let feed = feed(stdin, waiting, took);
    tokio::pin!(listen, feed);
    let (mut listening, mut feeding) = (true, true);
    let exit = loop {
        let message = tokio::select! {
            event = running.next() => match event {
                Ok(Some(ProcessEvent::Stdout(bytes))) => output(STDOUT, &bytes),
                Ok(Some(ProcessEvent::Stderr(bytes))) => output(STDERR, &bytes),
                Ok(Some(ProcessEvent::InputRead(bytes))) => text(&ExecWord::Read(bytes)),
                Ok(Some(ProcessEvent::Exited(exit))) => break exit,
                Ok(Some(_)) => continue,
                Ok(None) => {
                    return Err(Failure::new(Code::GuestFailed, "the command ended without a word").into());
                }
                Err(failure) => return Err(failure.into()),
            },
            Some(count) = taken.recv() => text(&ExecWord::Taken(count)),
            () = &mut feed, if feeding => {
                feeding = false;
                continue;
            }
            stays = &mut listen, if listening => {
                if !stays {
                    return Ok(None);
                }
                listening = false;
                continue;
            }
        };
        if sink.send(message).await.is_err() {
            return Ok(None);
        }
    };
    // A command that has read all its input is told to have, however soon after it ended.
    while let Ok(count) = taken.try_recv() {
        if sink.send(text(&ExecWord::Taken(count))).await.is_err() {
            break;
        }
    }
    Ok(Some(ended(running, &exit).await?))
}

fn output(channel: u8, bytes: &[u8]) -> Message {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel);
    message.extend_from_slice(bytes);
    Message::Binary(message.into())
}

/// A queue of input that holds [`INPUT_WINDOW`] bytes, in as many messages as fit into it as pieces.
fn input() -> (Pieces, mpsc::Receiver<Piece>) {
    let (sender, waiting) = mpsc::channel(INPUT_WINDOW / INPUT_PIECE);
    (Pieces { sender, room: Arc::new(Semaphore::new(INPUT_WINDOW)) }, waiting)
}

/// Where input is put.
struct Pieces {
    sender: mpsc::Sender<Piece>,
    room: Arc<Semaphore>,
}

/// Input, and its room in the queue until it is taken.
struct Piece {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Pieces {
    /// Waits until there is room. False if nobody takes input any more.
    async fn put(&self, bytes: Bytes) -> bool {
        let size = u32::try_from(bytes.len().min(INPUT_WINDOW)).unwrap_or(u32::MAX);
        let put = async {
            let room = Arc::clone(&self.room).acquire_many_owned(size).await.ok()?;
            self.sender.send(Piece { bytes, _room: room }).await.ok()
        };
        tokio::select! {
            put = put => put.is_some(),
            () = self.sender.closed() => false,
        }
    }
}

/// Passes on what the client sends. Returns false when the client has gone.
async fn listen(
    stream: &mut SplitStream<&mut WebSocket>,
    mut input: Option<Pieces>,
    control: Box<dyn ProcessControl>,
) -> bool {
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Binary(bytes) if bytes.len() > INPUT_WINDOW => return false,
            Message::Binary(bytes) => {
                // A command that reads no more ends by itself; its client is told then.
                if let Some(pieces) = &input
                    && !pieces.put(bytes).await
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

/// Gives the command its input, at its own pace.
async fn feed(
    stdin: Option<Box<dyn Stdin>>,
    mut waiting: mpsc::Receiver<Piece>,
    took: mpsc::UnboundedSender<usize>,
) {
    let Some(mut stdin) = stdin else { return };
    while let Some(piece) = waiting.recv().await {
        if stdin.write(&piece.bytes).await.is_err() {
            return;
        }
        let _ = took.send(piece.bytes.len());
    }
}

async fn ended(running: Interactive, exit: &Exit) -> Result<ExecWord, Failure> {
    running.ended(exit).await?;
    let (code, signal) = match exit.status {
        ExitStatus::Code(code) => (Some(code), None),
        ExitStatus::Signal(signal) => (None, Some(signal)),
    };
    let Usage { wall_us, user_us, system_us, max_rss_kib } = exit.usage;
    let usage = ExecUsage { wall_us, user_us, system_us, max_rss_kib };
    Ok(ExecWord::Exit(ExecExit { code, signal, timed_out: exit.timed_out, usage }))
}

fn text(word: &ExecWord) -> Message {
    Message::Text(serde_json::to_string(word).unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn input_that_waits_is_bounded_by_its_bytes() {
        let (pieces, mut waiting) = input();
        let half = || Bytes::from(vec![0; INPUT_WINDOW / 2]);
        assert!(pieces.put(half()).await && pieces.put(half()).await);
        let mut third = Box::pin(pieces.put(half()));
        assert!((&mut third).now_or_never().is_none());
        let first = waiting.recv().await.unwrap();
        assert!((&mut third).now_or_never().is_none(), "what is being written is held, too");
        drop(first);
        assert!(third.await);
        let fourth = pieces.put(half());
        drop(waiting);
        assert!(!fourth.await, "a command that takes no more input ends the wait");
    }
}
