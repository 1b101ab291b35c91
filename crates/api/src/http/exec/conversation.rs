//! While the command runs.

use std::collections::VecDeque;

use agentiso_core::ports::link::{Exit, ExitStatus, ProcessControl, ProcessEvent, Usage};
use agentiso_core::wire::{
    ExecControl, ExecExit, ExecUsage, ExecWord, INPUT_WINDOW, RunMachine, STDERR, STDOUT,
};
use agentiso_core::{Code, Failure};
use axum::extract::ws::{Message, WebSocket};
use futures_util::{Sink, SinkExt, Stream, StreamExt, stream};
use tokio::sync::mpsc;

use super::input::{Pieces, feed, queue};
use crate::RunningCommand;

/// Connects a command with its client until one of them ends. `None` if the client is gone.
pub(super) async fn converse(
    mut running: Box<dyn RunningCommand>,
    reports_input: bool,
    machine: Option<RunMachine>,
    (socket, early): (&mut WebSocket, VecDeque<Message>),
) -> Result<Option<ExecWord>, Failure> {
    let (mut sink, stream) = socket.split();
    let stream = stream::iter(early).map(Ok).chain(stream);
    tokio::pin!(stream);
    let (workspace_id, workspace) = running.workspace();
    let started = ExecWord::Started {
        workspace_id: workspace_id.to_owned(),
        workspace: workspace.to_owned(),
        reports_input,
        machine,
    };
    if sink.send(text(&started)).await.is_err() {
        return Ok(None);
    }
    let (pieces, waiting) = queue();
    let (took, taken) = mpsc::unbounded_channel();
    let stdin = running.take_stdin();
    let listen = listen(stream, stdin.is_some().then_some(pieces), running.control());
    let feed = feed(stdin, waiting, took);
    let (said, unsent) = mpsc::channel(1);
    let report = report(running, taken, said);
    let send = send(unsent, sink);
    // Side by side: while output waits for the client to read, input must still be read from the client, which may be
    // waiting for exactly that.
    let reported = async { tokio::join!(report, send).0 };
    tokio::pin!(reported, listen, feed);
    let mut feeding = true;
    loop {
        tokio::select! {
            exit = &mut reported => return exit,
            () = &mut feed, if feeding => feeding = false,
            () = &mut listen => return Ok(None),
        }
    }
}

/// Reports what the command does until it ends. `None` if the client is gone.
async fn report(
    mut running: Box<dyn RunningCommand>,
    mut taken: mpsc::UnboundedReceiver<usize>,
    said: mpsc::Sender<Message>,
) -> Result<Option<ExecWord>, Failure> {
    let exit = loop {
        let message = tokio::select! {
            event = running.next() => match event? {
                Some(ProcessEvent::Stdout(bytes)) => output(STDOUT, &bytes),
                Some(ProcessEvent::Stderr(bytes)) => output(STDERR, &bytes),
                Some(ProcessEvent::InputRead(bytes)) => text(&ExecWord::Read(bytes)),
                Some(ProcessEvent::Exited(exit)) => break exit,
                Some(_) => continue,
                None => {
                    let message = "the connection to the command ended before its exit status arrived";
                    return Err(Failure::new(Code::GuestFailed, message));
                }
            },
            Some(count) = taken.recv() => text(&ExecWord::Taken(count)),
        };
        if said.send(message).await.is_err() {
            return Ok(None);
        }
    };
    // Acknowledge all input that was taken, even if the command ended right after it.
    while let Ok(count) = taken.try_recv() {
        if said.send(text(&ExecWord::Taken(count))).await.is_err() {
            break;
        }
    }
    running.ended(&exit).await?;
    Ok(Some(last_word(&exit)))
}

/// Sends messages until there are no more, or the client is gone.
async fn send(mut unsent: mpsc::Receiver<Message>, mut sink: impl Sink<Message> + Unpin) {
    while let Some(message) = unsent.recv().await {
        if sink.send(message).await.is_err() {
            return;
        }
    }
}

/// Passes on what the client sends. Returns when the client is gone or breaks the protocol.
async fn listen<E>(
    mut stream: impl Stream<Item = Result<Message, E>> + Unpin,
    mut input: Option<Pieces>,
    control: Box<dyn ProcessControl>,
) {
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Binary(bytes) if bytes.len() > INPUT_WINDOW => return,
            Message::Binary(bytes) => {
                // If the command takes no more input, it may still run: its client learns of its end.
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
                Err(_) => return,
            },
            Message::Close(_) => return,
            Message::Ping(_) | Message::Pong(_) => {}
        }
    }
}

fn output(channel: u8, bytes: &[u8]) -> Message {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel);
    message.extend_from_slice(bytes);
    Message::Binary(message.into())
}

fn last_word(exit: &Exit) -> ExecWord {
    let (code, signal) = match exit.status {
        ExitStatus::Code(code) => (Some(code), None),
        ExitStatus::Signal(signal) => (None, Some(signal)),
    };
    let Usage { wall_us, user_us, system_us, max_rss_kib } = exit.usage;
    let usage = ExecUsage { wall_us, user_us, system_us, max_rss_kib };
    ExecWord::Exit(ExecExit { code, signal, timed_out: exit.timed_out, usage })
}

pub(super) fn text(word: &ExecWord) -> Message {
    Message::Text(serde_json::to_string(word).unwrap_or_default().into())
}
