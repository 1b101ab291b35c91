//! Sessions, and which workspaces they own.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;

use super::Variable;
use crate::{Failure, SessionId, WorkspaceId};

/// The longest name of a client that is kept, in characters.
pub const MAX_CLIENT: usize = 128;

/// One client's identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its permanent id.
    pub id: SessionId,
    /// How its client connects.
    pub kind: SessionKind,
    /// The name of the client; at most [`MAX_CLIENT`] characters.
    pub client: String,
    /// The hash of the token that identifies the client. The token itself is not stored.
    pub token_hash: [u8; 32],
    /// Start time, to the microsecond.
    pub created: Timestamp,
    /// Time of its last request, to the microsecond.
    pub last_active: Timestamp,
}

/// How the client of a session connects.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum SessionKind {
    /// As an MCP client.
    Mcp,
    /// Over the REST interface.
    Http,
    /// As an MCP client over HTTP without anything that would identify it later. The session ends with the conversation,
    /// and with the daemon.
    Fleeting,
}

impl SessionKind {
    /// The kind as it is printed and stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Http => "http",
            // The name under which the first versions stored it.
            Self::Fleeting => "local",
        }
    }
}

/// Sessions and ownership.
#[async_trait]
pub trait SessionRecords: Send + Sync {
    /// Adds a session.
    async fn insert_session(&self, session: &Session) -> Result<(), Failure>;

    /// A session by its id, `None` if it does not exist. An error never means absence.
    async fn session_if_known(&self, id: SessionId) -> Result<Option<Session>, Failure>;

    /// The session whose token has this hash.
    async fn session_by_token(&self, hash: &[u8; 32]) -> Result<Option<Session>, Failure>;

    /// All sessions, oldest first.
    async fn sessions(&self) -> Result<Vec<Session>, Failure>;

    /// The number of sessions.
    async fn session_count(&self) -> Result<u64, Failure>;

    /// The sessions that own nothing, least recently active first.
    async fn sessions_without_workspaces(&self) -> Result<Vec<Session>, Failure>;

    /// Removes a session with its idempotency keys. Returns the workspaces it owned, which have no owner now. Its id
    /// is kept until [`Self::forget_ended_session`].
    async fn end_session(&self, id: SessionId) -> Result<Vec<WorkspaceId>, Failure>;

    /// Removes all sessions of a kind.
    async fn end_sessions_of(&self, kind: SessionKind) -> Result<(), Failure>;

    /// The sessions that were removed and whose files may still exist.
    async fn ended_sessions(&self) -> Result<Vec<SessionId>, Failure>;

    /// Notes that nothing is left of a removed session.
    async fn forget_ended_session(&self, id: SessionId) -> Result<(), Failure>;

    /// Notes when sessions and workspaces were last active. Those that no longer exist are skipped.
    async fn note_activity(
        &self,
        sessions: &BTreeMap<SessionId, Timestamp>,
        workspaces: &BTreeMap<WorkspaceId, Timestamp>,
    ) -> Result<(), Failure>;

    /// The session that owns a workspace.
    async fn owner_of(&self, workspace: WorkspaceId) -> Result<Option<Session>, Failure>;

    /// Makes a session the owner of a workspace. The variables that earlier sessions set are forgotten in the same
    /// transaction; those that stay are returned.
    async fn set_owner(&self, workspace: WorkspaceId, owner: SessionId) -> Result<Vec<Variable>, Failure>;
}
