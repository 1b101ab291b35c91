//! Streams of events.

use std::convert::Infallible;
use std::sync::Arc;

use agentiso_core::action::{JobPoll, JobPolled, WaitFor};
use agentiso_core::progress::Silent;
use agentiso_core::wire::{ErrorBody, JobOutput};
use agentiso_core::{Code, Failure};
use agentiso_engine::Caller;
use axum::extract::{Path, State as Extracted};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, StreamExt};
use serde_json::json;

use super::auth::Asking;
use super::progress::event;
use super::router::State;
use crate::{Call, Watched};

/// How many seconds one poll of a job waits for output.
const POLL_SECS: u64 = 30;

/// What happens to workspaces: to all of them for the operator, to its own for a session. A watcher that is too slow is
/// told how many events it missed.
pub(super) async fn watch(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = state.backend.events(&caller).map(|watched| {
        Ok(match watched {
            Watched::Event(happened) => event(happened.kind.as_str(), &json!(happened)),
            Watched::Missed(missed) => event("missed", &json!({ "missed": missed })),
        })
    });
    Sse::new(events.take_until(state.end())).keep_alive(KeepAlive::default())
}

/// The output of a background command, until it ends.
pub(super) async fn job_output(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    Path((workspace_id, job_id)): Path<(String, u32)>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let stream = async_stream::stream! {
        let (mut stdout, mut stderr) = (0, 0);
        loop {
            let request = JobPoll {
                workspace_id: workspace_id.clone(),
                job_id,
                stdout_offset: Some(stdout),
                stderr_offset: Some(stderr),
                wait: Some(WaitFor::Output),
                wait_secs: Some(POLL_SECS),
                ..JobPoll::default()
            };
            let polled = tokio::select! {
                polled = poll(&state, &caller, &request) => polled,
                () = state.end() => break,
            };
            match polled {
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
                Err(failure) => {
                    yield Ok(event("error", &json!(ErrorBody::from(&failure))));
                    break;
                }
            }
        }
    };
    Sse::new(stream).keep_alive(KeepAlive::default())
}

async fn poll(state: &State, caller: &Caller, request: &JobPoll) -> Result<JobPolled, Failure> {
    let answer = state.backend.call(caller, Call::of(request, Arc::new(Silent))?).await?;
    serde_json::from_value(answer.structured)
        .map_err(|error| Failure::new(Code::Internal, format!("the outcome of a poll is malformed: {error}")))
}
