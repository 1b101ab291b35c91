//! Requests for approval: list and answer them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{ApprovalReference, MAX_WAIT_SECS};
use crate::approval::{ApprovalKind, ApprovalState, GrantScope};

/// Lists requests for approval.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InboxList {
    /// Only this request. Default: all that wait for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ApprovalReference>")]
    pub request_id: Option<String>,
    /// Also shows those that were answered or expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// Waits up to this many seconds: for an answer to request_id, or else for a request. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_SECS))]
    pub wait_secs: Option<u64>,
}
action! { InboxList -> InboxListed {
    name: "inbox_list",
    title: "List requests for approval",
    subjects: [],
    routes: [Get "/v1/inbox"],
    tools: [],
    effect: Reads,
    flags: [idempotent],
    description: "Lists requests for approval, newest first: what a workspace or its agent may do only if somebody \
                  allows it. A session sees the requests of its own workspaces; the operator and approvers see all.",
}}

/// Requests for approval.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InboxListed {
    /// Number of requests.
    pub count: usize,
    /// The requests, newest first.
    pub requests: Vec<ApprovalBrief>,
}

/// A request for approval.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ApprovalBrief {
    /// Its id.
    pub request_id: String,
    /// What it is about.
    pub kind: ApprovalKind,
    /// Exactly what is asked for.
    pub asked: serde_json::Value,
    /// The same in words.
    pub summary: String,
    /// Why it needs approval.
    pub reason: String,
    /// Id of the workspace.
    pub workspace_id: String,
    /// Name of the workspace at that time.
    pub workspace_name: String,
    /// The session that asked, or that owned the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Name of the client that asked.
    pub client: String,
    /// Its state.
    pub state: ApprovalState,
    /// How far the grant extends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<GrantScope>,
    /// When it was raised.
    pub created_at: String,
    /// When its state ends: an open request expires, a grant or denial no longer holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether the caller may answer it.
    pub can_answer: bool,
}

impl ApprovalBrief {
    fn in_words(&self) -> String {
        let scope = self.scope.map(|scope| format!(" ({scope})")).unwrap_or_default();
        format!(
            "{} [{}{scope}] {} ({}) asks to {}: {}",
            self.request_id, self.state, self.workspace_name, self.client, self.summary, self.reason
        )
    }
}

impl Outcome for InboxListed {
    fn text(&self) -> String {
        if self.requests.is_empty() {
            return "no requests for approval".to_owned();
        }
        self.requests.iter().map(ApprovalBrief::in_words).collect::<Vec<_>>().join("\n")
    }
}

/// Grants a request for approval.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InboxGrant {
    /// Id of the request.
    #[schemars(with = "ApprovalReference")]
    pub request_id: String,
    /// `once` (default): a single use within a limited time, for a destination ten minutes; `workspace`: as long as the
    /// workspace exists; `always`: in all workspaces that ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<GrantScope>,
}
action! { InboxGrant -> InboxAnswered {
    name: "inbox_grant",
    title: "Grant a request for approval",
    subjects: [],
    routes: [Post "/v1/inbox/{request_id}/grant"],
    tools: [],
    effect: Changes,
    flags: [idempotent],
    description: "Allows exactly what a request asks for. Only the operator, or a session that the operator named as \
                  approver, can do this; never the session that asked or that owns the workspace.",
}}

/// Denies a request for approval.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InboxDeny {
    /// Id of the request.
    #[schemars(with = "ApprovalReference")]
    pub request_id: String,
}
action! { InboxDeny -> InboxAnswered {
    name: "inbox_deny",
    title: "Deny a request for approval",
    subjects: [],
    routes: [Post "/v1/inbox/{request_id}/deny"],
    tools: [],
    effect: Changes,
    flags: [idempotent],
    description: "Refuses what a request asks for; the same request is not raised again for an hour. Also revokes a \
                  grant that holds. For those who can grant.",
}}

/// A request that was answered.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InboxAnswered {
    /// The request.
    pub request: ApprovalBrief,
}

impl Outcome for InboxAnswered {
    fn text(&self) -> String {
        self.request.in_words()
    }
}

/// Names a session as approver.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InboxApprover {
    /// Id of the session.
    pub session_id: String,
    /// Whether it may answer requests of others. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<bool>,
}
action! { InboxApprover -> InboxApproverSet {
    name: "inbox_approver",
    title: "Name an approver",
    subjects: [],
    routes: [Post "/v1/inbox/approvers"],
    tools: [],
    effect: Changes,
    flags: [idempotent],
    description: "Lets a session answer requests for approval of other sessions, or no longer. Only the operator can \
                  do this. It ends with the session.",
}}

/// Whether a session is an approver.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InboxApproverSet {
    /// Id of the session.
    pub session_id: String,
    /// Name of its client.
    pub client: String,
    /// Whether it may answer requests of others.
    pub approver: bool,
}

impl Outcome for InboxApproverSet {
    fn text(&self) -> String {
        let may = if self.approver { "may" } else { "may not" };
        format!("session {} ({}) {may} answer requests for approval", self.session_id, self.client)
    }
}
