//! Running calls, and tasks: long calls for clients that prefer to poll.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use agentiso_core::{Code, Failure};
use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, CallToolResult, CreateTaskResult};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use serde_json::Value;

use super::arguments::Request;
use super::progress::Reports;
use super::results;
use super::selection::Selection;
use crate::{Backend, Call};

/// A running call.
pub(super) type Work = Pin<Box<dyn Future<Output = CallToolResult> + Send>>;

/// Runs a call. Turns a panic into a failure, so that no client waits for ever.
pub(super) fn work<B: Backend>(backend: B, client: String, call: Call, selection: Arc<Selection>) -> Work {
    let action = call.action;
    let mut work = Box::pin(async move { backend.call_for(&client, call).await });
    Box::pin(async move {
        let outcome = poll_fn(|context| {
            // A future that panicked is not polled again, so its state is never observed.
            catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))).unwrap_or_else(|_| {
                Poll::Ready(Err(Failure::new(
                    Code::Internal,
                    format!("{action} failed because of a bug in agentiso"),
                )))
            })
        });
        results::of(outcome.await, &selection)
    })
}

/// Calls that end sooner do not become tasks.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum number of tasks. Further calls are answered synchronously.
const MOST: usize = 64;

/// Assumed duration of a call without a timeout.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long a task is kept beyond the duration of its call.
const MARGIN: Duration = Duration::from_secs(300);

/// Whether a call may become a task.
pub(super) fn may_become_one(
    request: &Request,
    tasks: &TaskManager,
    context: &RequestContext<RoleServer>,
) -> bool {
    request.entry.about.long_running
        && context.client_capabilities().is_some_and(|client| client.supports_tasks())
        && tasks.running_task_count() < MOST
}

/// How long the task of a call is kept. It is cancelled after that time.
pub(super) fn time_to_live(request: &Request) -> Duration {
    let limit = request.arguments.get("timeout_secs").and_then(Value::as_u64).map(Duration::from_secs);
    limit.unwrap_or(LONGEST).saturating_add(MARGIN)
}

/// Continues a call as a task. Cancelling the task drops the future, which cancels the work.
pub(super) fn go_on(
    tasks: &TaskManager,
    time_to_live: Duration,
    mut work: Work,
    mut reports: Reports,
) -> CallToolResponse {
    let ttl = u64::try_from(time_to_live.as_millis()).unwrap_or(u64::MAX);
    let task = tasks.spawn(TaskOptions::new().with_ttl_ms(ttl), move |task| {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = task.cancelled() => Err(TaskExit::Cancelled),
                result = &mut work => Ok(result),
                never = reports.keep(&task) => match never {},
            }
        })
    });
    CreateTaskResult::new(task).into()
}
