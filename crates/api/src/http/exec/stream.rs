//! The two streams: a command in a workspace, and a command with a workspace of its own.

use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::wire::{ErrorFields, ExecSpec, ExecWord, RunMachine, RunSpec};
use agentiso_engine::{Caller, NotStarted};
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State as Extracted};
use axum::response::Response;
use futures_util::SinkExt;
use tokio::sync::mpsc;

use super::conversation::{converse, text};
use super::start::Waiting;
use crate::http::auth::Asking;
use crate::http::progress::Told;
use crate::http::router::State;

/// The longest first message: a command of 2 MiB whose every byte JSON writes as two, its variables and the rest. A
/// longer one ends the connection.
const LONGEST_SPEC: usize = 5 << 20;

/// Runs a command in a workspace.
pub(in crate::http) async fn exec(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    Path(workspace): Path<String>,
    upgrade: WebSocketUpgrade,
) -> Response {
    limited(upgrade).on_upgrade(move |mut socket| async move {
        let word = exec_in(&state, &caller, &workspace, Waiting::new(&mut socket)).await;
        finish(socket, word).await;
    })
}

/// Runs a command in a workspace that is created for it and destroyed afterwards.
pub(in crate::http) async fn run(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    upgrade: WebSocketUpgrade,
) -> Response {
    limited(upgrade).on_upgrade(move |mut socket| async move {
        let word = run_once(&state, &caller, Waiting::new(&mut socket)).await;
        finish(socket, word).await;
    })
}

/// What is said last, unless the client is gone.
type LastWord = Result<Option<ExecWord>, NotStarted>;

fn limited(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade.max_message_size(LONGEST_SPEC).max_frame_size(LONGEST_SPEC)
}

/// Says the last word and closes the stream, which tells the client that nothing is left of the command, nor of the
/// workspace that was created for it.
async fn finish(mut socket: WebSocket, word: LastWord) {
    let word = word.unwrap_or_else(|NotStarted { failure, refused }| {
        Some(ExecWord::Error { fields: ErrorFields::from(&failure), refused })
    });
    if let Some(word) = word {
        // The client may be gone.
        let _ = socket.send(text(&word)).await;
    }
    let _ = socket.close().await;
}

async fn exec_in(state: &State, caller: &Caller, workspace: &str, mut client: Waiting<'_>) -> LastWord {
    let Some(spec) = client.first().await? else { return Ok(None) };
    attend(state, caller, workspace, spec, None, client).await
}

async fn run_once(state: &State, caller: &Caller, mut client: Waiting<'_>) -> LastWord {
    let Some(RunSpec { workspace, command }) = client.first().await? else { return Ok(None) };
    let (sender, told) = mpsc::unbounded_channel();
    let progress: Arc<dyn Progress> = Arc::new(Told::new(sender));
    let creating = state.backend.create_one_shot(caller, workspace, progress);
    // If the client is gone, the creation is dropped, which undoes it.
    let Some(created) = client.wait(creating, told).await else { return Ok(None) };
    let one_shot = created?;
    let (id, machine) = (one_shot.workspace_id(), one_shot.machine());
    let ended = attend(state, caller, &id, command, Some(machine), client).await;
    one_shot.destroy().await;
    ended
}

/// Starts a command and stays with it until it ends or its client is gone.
async fn attend(
    state: &State,
    caller: &Caller,
    workspace: &str,
    spec: ExecSpec,
    machine: Option<RunMachine>,
    mut client: Waiting<'_>,
) -> LastWord {
    let report_input = spec.report_input && spec.stdin && spec.tty.is_none();
    let (_, no_progress) = mpsc::unbounded_channel();
    let starting = state.backend.exec(caller, workspace, spec);
    let Some(running) = client.wait(starting, no_progress).await else { return Ok(None) };
    let running = running?;
    // An older agent cannot; its client is told.
    let reports_input = report_input && running.control().report_input().await.is_ok();
    converse(running, reports_input, machine, client.into_parts()).await.map_err(NotStarted::from)
}
