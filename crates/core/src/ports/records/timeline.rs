//! The timeline.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{Failure, SessionId, WorkspaceId, WorkspaceName};

/// The longest detail of an event that is kept, in bytes of JSON.
pub const MAX_DETAIL: usize = 4096;

/// The outcome of an action that is being carried out.
pub const RUNNING: &str = "running";
/// The outcome of an action that never ended, because the daemon did before.
pub const INTERRUPTED: &str = "interrupted";

/// A call to add to the timeline, without secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// Start time, to the microsecond.
    pub at: Timestamp,
    /// The workspace, which may no longer exist.
    pub workspace: Option<WorkspaceId>,
    /// The name of the workspace at that time.
    pub workspace_name: Option<WorkspaceName>,
    /// The session of the caller, which may no longer exist; `None` for the user.
    pub session: Option<SessionId>,
    /// The name of the client; at most [`MAX_CLIENT`](super::MAX_CLIENT) characters.
    pub client: String,
    /// The name of the action.
    pub action: String,
    /// Its parameters without secrets; at most [`MAX_DETAIL`] bytes.
    pub detail: Value,
    /// Duration, to the microsecond.
    pub duration: Duration,
    /// `ok`, the code of the error, [`RUNNING`] or [`INTERRUPTED`].
    pub outcome: String,
    /// What it changed, in a few words.
    pub changed: Option<String>,
}

/// A call in the timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number: greater than those of all earlier calls, and never reused.
    pub id: i64,
    /// The call.
    pub done: NewEvent,
}

/// How an action ended whose event was stored before it was carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct EventEnd {
    /// The number of its event.
    pub id: i64,
    /// The workspace it created, if it created one.
    pub workspace: Option<(WorkspaceId, WorkspaceName)>,
    /// Duration, to the microsecond.
    pub duration: Duration,
    /// `ok`, or the code of the error.
    pub outcome: String,
    /// What it changed, in a few words.
    pub changed: Option<String>,
}

/// A selection of events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EventFilter {
    /// Only those of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Only those with a lower number than this.
    pub before: Option<i64>,
    /// Only those of some sessions.
    pub by: By,
    /// Without the successful events of these actions.
    pub without: &'static [&'static str],
    /// Maximum number of events after filtering.
    pub limit: u32,
}

/// Whose events are selected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum By {
    /// Those of all callers.
    Anyone,
    /// Those of one session.
    Session(SessionId),
    /// Those of one session and of the user.
    SessionOrUser(SessionId),
}

/// The timeline.
#[async_trait]
pub trait TimelineRecords: Send + Sync {
    /// Appends events in the order given: all of them or none.
    async fn append_events(&self, events: &[NewEvent]) -> Result<(), Failure>;

    /// Appends the event of an action that is about to be carried out, as [`RUNNING`], and returns its place.
    async fn begin_event(&self, event: &NewEvent) -> Result<i64, Failure>;

    /// Completes events that were begun: all of them or none. Those that are no longer kept are skipped.
    async fn complete_events(&self, ends: &[EventEnd]) -> Result<(), Failure>;

    /// The place of the newest event; 0 if there is none.
    async fn newest_event(&self) -> Result<i64, Failure>;

    /// Marks every event up to a place that is still [`RUNNING`] as [`INTERRUPTED`].
    async fn interrupt_events(&self, up_to: i64) -> Result<(), Failure>;

    /// Events, newest first.
    async fn events(&self, filter: EventFilter) -> Result<Vec<Event>, Failure>;

    /// Forgets all events but the newest.
    async fn prune_events(&self, keep_newest: u64) -> Result<(), Failure>;
}
