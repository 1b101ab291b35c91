//! Events of workspaces, for clients that subscribe to them.

use std::sync::Arc;

use agentiso_core::ports::records::Records;
pub use agentiso_core::wire::EventKind;
use agentiso_core::{SessionId, WorkspaceId};
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::broadcast;

/// How many events a slow subscriber may lag behind before it misses some.
const LAG: usize = 256;

/// Something that happened to a workspace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// Its name at that time.
    pub name: String,
    /// The time, on the wall clock.
    pub at: Timestamp,
    /// Details for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who may see it.
    #[serde(skip)]
    pub(crate) audience: Audience,
}

/// Who may see an event, besides the operator, who sees all of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Audience {
    /// The session that owned the workspace.
    Owner(SessionId),
    /// Every session that is not isolated: nobody owned the workspace.
    Everyone,
    /// Nobody else: the owner could not be determined.
    Operator,
}

impl From<Option<SessionId>> for Audience {
    fn from(owner: Option<SessionId>) -> Self {
        owner.map_or(Self::Everyone, Self::Owner)
    }
}

/// Sends events to all subscribers.
pub(crate) struct Events {
    sender: broadcast::Sender<Event>,
    records: Arc<dyn Records>,
}

impl Events {
    pub fn new(records: Arc<dyn Records>) -> Self {
        Self { sender: broadcast::channel(LAG).0, records }
    }

    /// Sends an event about a workspace that exists.
    pub async fn tell(&self, kind: EventKind, workspace_id: WorkspaceId, name: &str, note: Option<String>) {
        self.tell_to(self.audience_of(workspace_id).await, kind, workspace_id, name, note);
    }

    /// Sends an event about a workspace that may be gone, to those who could see it before.
    pub fn tell_to(
        &self,
        audience: Audience,
        kind: EventKind,
        workspace_id: WorkspaceId,
        name: &str,
        note: Option<String>,
    ) {
        let event = Event { kind, workspace_id, name: name.to_owned(), at: Timestamp::now(), note, audience };
        // It fails if nobody has subscribed.
        let _ = self.sender.send(event);
    }

    /// Who may see events of a workspace.
    pub async fn audience_of(&self, id: WorkspaceId) -> Audience {
        self.records.settings(id).await.map_or(Audience::Operator, |settings| settings.owner.into())
    }

    /// Subscribes to events from now on.
    pub fn watch(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}
