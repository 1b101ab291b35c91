//! What happens, as it happens.

use std::convert::Infallible;
use std::sync::Arc;

use agentiso_core::action::{JobPoll, WaitFor};
use agentiso_core::progress::Silent;
use agentiso_core::wire::{ErrorBody, JobOutput};
use agentiso_engine::{Caller, Delivered};
use axum::extract::{Path, State as Extracted};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use serde_json::json;

use super::auth::Asking;
use super::progress::event;
use super::router::State;

/// Seconds one look at a job waits for news.
const PATIENCE: u64 = 30;

/// The events that the caller may see. A client that is too slow is told how many it missed.
pub(super) async fn watch(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut events = state.engine.subscribe(&caller);
    let stream = async_stream::stream! {
        let end = state.end();
        tokio::pin!(end);
        loop {
            let next = tokio::select! {
                next = events.next() => next,
                () = &mut end => break,
            };
            match next {
                Delivered::Event(happened) => yield Ok(event(happened.kind.as_str(), &json!(happened))),
                Delivered::Missed(missed) => yield Ok(event("missed", &json!({ "missed": missed }))),
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
