//! One request and its answer.

use jiff::Timestamp;

use super::{Asked, NetworkDestination};
use crate::action::values::values;
use crate::{ApprovalId, SessionId, WorkspaceId, WorkspaceName};

/// The longest reason of a request, in characters.
pub const MAX_REASON: usize = 500;

values! {
    /// The state of a request for approval.
    ApprovalState {
        /// It waits for an answer.
        Open = "open",
        /// It was granted, and the grant holds.
        Granted = "granted",
        /// It was denied, or its grant was revoked.
        Denied = "denied",
        /// Nobody answered, or nobody used the grant, in time.
        Expired = "expired",
        /// It was granted once, and that is over.
        Used = "used",
    }
}

values! {
    /// How far a grant extends.
    GrantScope {
        /// Once, within a limited time.
        Once = "once",
        /// For the workspace, as long as it exists.
        Workspace = "workspace",
        /// For all workspaces that ask.
        Always = "always",
    }
}

/// A request for approval.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// Its permanent id.
    pub id: ApprovalId,
    /// The workspace it is about.
    pub workspace: WorkspaceId,
    /// The name of the workspace when it was raised.
    pub workspace_name: WorkspaceName,
    /// The session that asked, or for what a guest did the session that owned the workspace; `None` for the operator.
    pub asked_by: Option<SessionId>,
    /// The name of the client that asked.
    pub client: String,
    /// What is asked for.
    pub asked: Asked,
    /// The digest of the canonical form of what is asked for.
    pub digest: [u8; 32],
    /// Why it needs approval; at most [`MAX_REASON`] characters.
    pub reason: String,
    /// When it was raised, to the microsecond, on the clock of time limits.
    pub created: Timestamp,
    /// When its state ends: an open request expires, a denial no longer holds, a grant for once is over. `None` if it
    /// never ends.
    pub until: Option<Timestamp>,
    /// Whether it was answered, and how.
    pub state: ApprovalState,
    /// How far its grant extends, if it was granted.
    pub scope: Option<GrantScope>,
    /// Who answered: `None` for nobody and for the operator.
    pub answered_by: Option<SessionId>,
}

impl Approval {
    /// Whether it is a grant that holds for all workspaces that ask.
    pub fn is_for_all(&self) -> bool {
        self.state == ApprovalState::Granted && self.scope == Some(GrantScope::Always)
    }

    /// The destination it opened for a limited time, if it did.
    pub fn open_for_now(&self) -> Option<&NetworkDestination> {
        match &self.asked {
            Asked::Network { destination }
                if self.state == ApprovalState::Granted && self.scope == Some(GrantScope::Once) =>
            {
                Some(destination)
            }
            _ => None,
        }
    }
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It may be done.
    Grant(GrantScope),
    /// It must not be done.
    Deny,
}
