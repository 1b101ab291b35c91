//! Requests for approval, and the sessions that may answer them.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::approval::{Answer, Approval, ApprovalState, OpenLimits};
use crate::{ApprovalId, Failure, SessionId, WorkspaceId};

/// What became of a request that was raised.
#[derive(Clone, Debug, PartialEq)]
pub enum Raised {
    /// It is new and waits for an answer.
    New(Approval),
    /// An equal request of the workspace waits for an answer already.
    Waiting(Approval),
    /// An equal request was granted, and the grant holds. It is not used up by this.
    Granted(Approval),
    /// An equal request of the workspace was denied, and the denial holds.
    Denied(Approval),
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NewAnswer {
    /// The request.
    pub id: ApprovalId,
    /// The answer.
    pub answer: Answer,
    /// The session that answers; `None` for the operator.
    pub by: Option<SessionId>,
    /// Now.
    pub at: Timestamp,
    /// When the answer ceases to hold.
    pub until: Option<Timestamp>,
}

/// Requests for approval. Times are on the clock that time limits are counted on.
#[async_trait]
pub trait ApprovalRecords: Send + Sync {
    /// Stores an open request, unless an equal one of the workspace is open or its answer holds. Fails with
    /// `quota_exceeded` if too many are open.
    async fn raise_approval(&self, request: &Approval, limits: OpenLimits) -> Result<Raised, Failure>;

    /// A request, or `None` if there is none with that id.
    async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, Failure>;

    /// The newest requests, newest first; those in one state, or all.
    async fn approvals(&self, state: Option<ApprovalState>, limit: u32) -> Result<Vec<Approval>, Failure>;

    /// Answers a request and returns it. Repeating an answer changes nothing. Fails with `approval_closed` if it can no
    /// longer be answered like this.
    async fn answer_approval(&self, answer: NewAnswer) -> Result<Approval, Failure>;

    /// Whether exactly this was granted for the workspace, or always. A grant for once is used up by this.
    async fn use_grant(
        &self,
        workspace: WorkspaceId,
        digest: &[u8; 32],
        at: Timestamp,
    ) -> Result<Option<Approval>, Failure>;

    /// The requests whose state ends by now, oldest first.
    async fn due_approvals(&self, at: Timestamp) -> Result<Vec<Approval>, Failure>;

    /// Ends what has lasted long enough: open requests, grants for once, and denials, which are forgotten. Returns the
    /// requests that have another state now. What a grant opened has to be closed before.
    async fn end_approvals(&self, at: Timestamp) -> Result<Vec<Approval>, Failure>;

    /// Forgets all requests that are over but the newest.
    async fn prune_approvals(&self, keep_newest: u32) -> Result<(), Failure>;

    /// The sessions that may answer requests of others.
    async fn approvers(&self) -> Result<Vec<SessionId>, Failure>;

    /// Names a session as approver, or no longer. It ends with the session.
    async fn set_approver(&self, session: SessionId, named: bool) -> Result<(), Failure>;
}
