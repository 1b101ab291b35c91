//! Calls on their way, and those that take long, for clients that would rather ask later than wait.

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

/// A call that is being carried out.
pub(super) type Work = Pin<Box<dyn Future<Output = CallToolResult> + Send>>;

/// Carries a call out. A fault of ours must not leave a client waiting for ever.
pub(super) fn work<B: Backend>(backend: B, client: String, call: Call, selection: Arc<Selection>) -> Work {
    let action = call.action;
    let mut work = Box::pin(async move { backend.call_for(&client, call).await });
    Box::pin(async move {
        let outcome = poll_fn(|context| {
            // A future that panicked is not polled again, so nothing it left behind is seen.
            catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))).unwrap_or_else(|_| {
                Poll::Ready(Err(Failure::new(Code::Internal, format!("{action} ended with a fault of ours"))))
            })
        });
        results::of(outcome.await, &selection)
    })
}

/// Most calls end sooner: then there is nothing to ask for later.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// So many tasks at once; calls beyond them are waited for.
const MOST: usize = 64;

/// What a call without a limit of its own may take.
const LONGEST: Duration = Duration::from_secs(3600);

/// For how long a task is kept beyond what its call may take.
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

/// For how long the task of a call is kept; it is ended when that is over.
pub(super) fn time_to_live(request: &Request) -> Duration {
    let limit = request.arguments.get("timeout_secs").and_then(Value::as_u64).map(Duration::from_secs);
    limit.unwrap_or(LONGEST).saturating_add(MARGIN)
}

/// Lets work go on as a task. When the task is cancelled the work is dropped, which ends it.
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
