//! The timeline.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{Failure, SessionId, WorkspaceId, WorkspaceName};

/// The longest detail of an event that is kept, in bytes of JSON.
pub const MAX_DETAIL: usize = 4096;

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
    /// `ok`, or the code of the error.
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

/// A selection of events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EventFilter {
    /// Only those of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Only those with a lower number than this.
    pub before: Option<i64>,
    /// Only those of some sessions.
    pub by: By,
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

    /// Events, newest first.
    async fn events(&self, filter: EventFilter) -> Result<Vec<Event>, Failure>;

    /// Forgets all events but the newest.
    async fn prune_events(&self, keep_newest: u64) -> Result<(), Failure>;
}
