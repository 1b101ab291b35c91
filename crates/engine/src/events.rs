//! What happens, for those who watch.

use std::sync::Arc;

pub use agentiso_core::wire::EventKind;
use agentiso_core::{SessionId, WorkspaceId};
use agentiso_meta::Meta;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::broadcast;

/// How many events a slow watcher may lag behind before it misses some.
const LAG: usize = 256;

/// Something that happened to a workspace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// What it is called.
    pub name: String,
    /// When.
    pub at: Timestamp,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The session that owned the workspace then.
    #[serde(skip)]
    pub(crate) owner: Option<SessionId>,
}

/// Tells all who watch.
pub(crate) struct Events {
    sender: broadcast::Sender<Event>,
    meta: Arc<Meta>,
}

impl Events {
    pub fn new(meta: Arc<Meta>) -> Self {
        Self { sender: broadcast::channel(LAG).0, meta }
    }

    /// Tells all who watch. There may be nobody.
    pub fn tell(&self, kind: EventKind, workspace_id: WorkspaceId, name: &str, note: Option<String>) {
        self.tell_for(self.owner_of(workspace_id), kind, workspace_id, name, note);
    }

    /// The same for a workspace that is gone, of which the owner was asked before.
    pub fn tell_for(
        &self,
        owner: Option<SessionId>,
        kind: EventKind,
        workspace_id: WorkspaceId,
        name: &str,
        note: Option<String>,
    ) {
        let event = Event { kind, workspace_id, name: name.to_owned(), at: Timestamp::now(), note, owner };
        let _ = self.sender.send(event);
    }

    /// The session that owns a workspace.
    pub fn owner_of(&self, id: WorkspaceId) -> Option<SessionId> {
        self.meta.read(|read| read.settings(id)).ok().and_then(|settings| settings.owner)
    }

    /// Watches from now on.
    pub fn watch(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}
