//! Events of workspaces, for clients that subscribe to them.
//!
//! An event is filtered when it is sent: what a client may not see never reaches its queue, and is not counted as missed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use agentiso_core::ports::records::Records;
pub use agentiso_core::wire::EventKind;
use agentiso_core::{SessionId, WorkspaceId};
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::live_state::locked;
use crate::{Caller, Engine};

/// How many events a slow subscriber may lag behind before it misses some.
const QUEUED: usize = 256;

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
    /// A session that answers requests of others. The operator gets the same event as another audience.
    Approver(SessionId),
}

impl From<Option<SessionId>> for Audience {
    fn from(owner: Option<SessionId>) -> Self {
        owner.map_or(Self::Everyone, Self::Owner)
    }
}

impl Audience {
    /// Whether a subscriber may see the event.
    fn includes(self, session: Option<SessionId>, isolated: bool) -> bool {
        match (session, self) {
            (session, Self::Approver(approver)) => session == Some(approver),
            (None, _) => true,
            (Some(session), Self::Owner(owner)) => session == owner,
            (Some(_), Self::Everyone) => !isolated,
            (Some(_), Self::Operator) => false,
        }
    }
}

/// Sends events to all subscribers that may see them.
pub(crate) struct Events {
    subscribers: Mutex<Vec<Subscriber>>,
    records: Arc<dyn Records>,
}

struct Subscriber {
    session: Option<SessionId>,
    isolated: bool,
    queue: mpsc::Sender<Event>,
    /// Events of its own that did not fit into its queue.
    missed: Arc<AtomicU64>,
}

/// The events that one client may see, from when it subscribed.
pub struct Subscription {
    queue: mpsc::Receiver<Event>,
    missed: Arc<AtomicU64>,
}

/// What a subscription delivers.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivered {
    /// An event.
    Event(Event),
    /// The client was too slow, and missed this many events that it could have seen.
    Missed(u64),
}

impl Subscription {
    /// Waits for the next event. Never returns if the engine has ended.
    pub async fn next(&mut self) -> Delivered {
        match self.queue.try_recv() {
            Ok(event) => Delivered::Event(event),
            Err(_) => match self.missed.swap(0, Ordering::Relaxed) {
                0 => match self.queue.recv().await {
                    Some(event) => Delivered::Event(event),
                    None => std::future::pending().await,
                },
                missed => Delivered::Missed(missed),
            },
        }
    }
}

impl Events {
    pub fn new(records: Arc<dyn Records>) -> Self {
        Self { subscribers: Mutex::default(), records }
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
        let event = Event { kind, workspace_id, name: name.to_owned(), at: Timestamp::now(), note };
        let mut subscribers = locked(&self.subscribers);
        subscribers.retain(|subscriber| !subscriber.queue.is_closed());
        for subscriber in subscribers.iter().filter(|one| audience.includes(one.session, one.isolated)) {
            if subscriber.queue.try_send(event.clone()).is_err() {
                subscriber.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Who may see events of a workspace.
    pub async fn audience_of(&self, id: WorkspaceId) -> Audience {
        self.records.settings(id).await.map_or(Audience::Operator, |settings| settings.owner.into())
    }

    fn subscribe(&self, session: Option<SessionId>, isolated: bool) -> Subscription {
        let (sender, queue) = mpsc::channel(QUEUED);
        let missed = Arc::<AtomicU64>::default();
        let subscriber = Subscriber { session, isolated, queue: sender, missed: Arc::clone(&missed) };
        locked(&self.subscribers).push(subscriber);
        Subscription { queue, missed }
    }
}

impl Engine {
    /// Subscribes a caller to the events it may see: those of its own workspaces and, unless sessions are isolated, of
    /// workspaces that nobody owns. The operator sees all events.
    pub fn subscribe(&self, caller: &Caller) -> Subscription {
        self.events.subscribe(caller.session, self.isolates(caller))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn session(number: u8) -> SessionId {
        SessionId::from_uuid(Uuid::from_u128(number.into()))
    }

    proptest! {
        #[test]
        fn a_session_sees_only_its_own_and_unowned_workspaces(who in 0u8..3, owner in 0u8..3, isolated: bool) {
            let sees = |audience: Audience| audience.includes(Some(session(who)), isolated);
            prop_assert_eq!(sees(Audience::Owner(session(owner))), who == owner);
            prop_assert_eq!(sees(Audience::Everyone), !isolated);
            prop_assert!(!sees(Audience::Operator), "an owner that cannot be read is not nobody");
        }
    }
}
