//! What happens, as it happens.

use std::convert::Infallible;
use std::sync::Arc;

use agentiso_core::action::{JobPoll, WaitFor};
use agentiso_core::progress::Silent;
use agentiso_core::wire::{ErrorBody, JobOutput};
use agentiso_engine::Caller;
use axum::extract::{Path, State as Extracted};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use super::auth::Asking;
use super::progress::event;
use super::router::State;

/// Seconds one look at a job waits for news.
const PATIENCE: u64 = 30;

/// What happens to workspaces: to all of them for the operator, to its own for a session. A watcher that is too slow is told how much it missed.
pub(super) async fn watch(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut events = state.engine.events();
    let stream = async_stream::stream! {
        let end = state.end();
        tokio::pin!(end);
        loop {
            let next = tokio::select! {
                next = events.recv() => next,
                () = &mut end => break,
            };
            match next {
                Ok(happened) if !state.engine.may_see(&caller, &happened) => {}
                Ok(happened) => yield Ok(event(happened.kind.as_str(), &json!(happened))),
                Err(RecvError::Lagged(missed)) => yield Ok(event("missed", &json!({ "missed": missed }))),
                Err(RecvError::Closed) => break,
            }
        }
    };
    Sse::new(stream).keep_alive(KeepAlive::default())
}

/// What a background command prints, until it ends.
pub(super) async fn job_output(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    Path((workspace_id, job_id)): Path<(String, u32)>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let stream = async_stream::stream! {
        let (mut stdout, mut stderr) = (0, 0);
        loop {
            let poll = JobPoll {
                workspace_id: workspace_id.clone(),
                job_id,
                stdout_offset: Some(stdout),
                stderr_offset: Some(stderr),
                wait: Some(WaitFor::Output),
                wait_secs: Some(PATIENCE),
                ..JobPoll::default()
            };
            let looked = tokio::select! {
                looked = look(&state, &caller, poll) => looked,
                () = state.end() => break,
            };
            match looked {
                Ok(polled) => {
                    (stdout, stderr) = (polled.next_stdout_offset, polled.next_stderr_offset);
                    let ended = !polled.running && !polled.more;
                    if !polled.stdout.is_empty() || !polled.stderr.is_empty() {
                        yield Ok(event("output", &json!(JobOutput { stdout: polled.stdout, stderr: polled.stderr })));
                    }
                    if ended {
                        yield Ok(event("exit", &json!({ "exit_code": polled.exit_code })));
                        break;
                    }
                }
                Err(body) => {
                    yield Ok(event("error", &json!(body)));
                    break;
                }
            }
        }
    };
    Sse::new(stream).keep_alive(KeepAlive::default())
}

async fn look(
    state: &State,
    caller: &Caller,
    poll: JobPoll,
) -> Result<agentiso_core::action::JobPolled, ErrorBody> {
    let looked = state.engine.act(caller, poll, Arc::new(Silent)).await;
    looked.map_err(|failure| ErrorBody::from(&failure))
}
