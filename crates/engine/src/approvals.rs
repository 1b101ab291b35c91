//! The queue of requests for approval.
//!
//! ```text
//!  ask ──► equal request open, granted or denied: that one ──► returned
//!   │
//!   └──► stored as open ──► event ──► answered (operator or approver) ──► carried out ──► stored ──► event
//!                             │
//!                             └──► nobody answers in time: expired by upkeep
//! ```
//!
//! Requests are stored, so they survive the daemon. An answer is carried out before it is stored: if either fails, the
//! request stays open and can be answered again. Answers are given one at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentiso_core::action::ApprovalBrief;
use agentiso_core::admission::Principal;
use agentiso_core::approval::{
    Answer, Approval, ApprovalState, Approver, Asked, GrantScope, MAX_REASON, OpenLimits, Refusal,
    may_answer, may_answer_so, may_see,
};
use agentiso_core::ports::records::{NewAnswer, Raised, Session, Settings, Workspace};
use agentiso_core::{ApprovalId, Code, Failure, SessionId, WorkspaceId};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

use crate::events::{Audience, EventKind};
use crate::record::Record;
use crate::upkeep::DAEMON;
use crate::views::shown;
use crate::{Caller, Engine};

/// How long a request waits for an answer.
const OPEN: Duration = Duration::from_secs(3600);
/// How long a grant for once can be used.
const ONCE: Duration = Duration::from_secs(600);
/// How long equal requests are refused after one was denied.
const DENIAL: Duration = Duration::from_secs(3600);
/// How many requests that are over are kept.
const KEPT: u32 = 1000;
/// The most requests that are listed.
const LISTED: u32 = 2000;
/// The fewest characters of an id by which the operator can name a request.
const SHORTEST: usize = 6;
/// The name of a request in the timeline.
const REQUESTED: &str = "approval_request";

/// What the queue keeps in memory.
pub(crate) struct Approvals {
    /// Changes when a request is raised or answered.
    changed: watch::Sender<u64>,
    /// Held while a request is answered.
    answering: tokio::sync::Mutex<()>,
}

impl Default for Approvals {
    fn default() -> Self {
        Self { changed: watch::Sender::new(0), answering: tokio::sync::Mutex::default() }
    }
}

impl Approvals {
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn note(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Engine {
    /// Raises a request for something that exactly `asked` describes, unless there is an equal one. `by` is the session
    /// that asks, or whose workspace does.
    pub async fn ask_approval(
        self: &Arc<Self>,
        workspace: &Workspace,
        by: Option<&Session>,
        asked: Asked,
        reason: &str,
    ) -> Result<Raised, Failure> {
        let now = self.clock.now();
        let asker = match by {
            Some(session) => Caller { session: Some(session.id), client: session.client.clone() },
            None => Caller::operator(DAEMON),
        };
        let request = Approval {
            id: ApprovalId::from_uuid(Uuid::new_v4()),
            workspace: workspace.id,
            workspace_name: workspace.name.clone(),
            asked_by: asker.session,
            client: asker.shown(),
            digest: digest(&asked),
            asked,
            reason: reason.chars().take(MAX_REASON).collect(),
            created: now,
            until: Some(now + OPEN),
            state: ApprovalState::Open,
            scope: None,
            answered_by: None,
        };
        let raised = self.records.raise_approval(&request, OpenLimits::DEFAULT).await?;
        if let Raised::New(request) = &raised {
            let detail = json!({ "reason": request.asked.to_string() });
            let mut record = Record::begin(self, &asker, REQUESTED, detail);
            record.about(workspace);
            record.end(Ok(Some(format!("request {}", request.id)))).await?;
            self.tell_of(EventKind::ApprovalRequested, request).await;
            self.approvals.note();
        }
        Ok(raised)
    }

    /// Whether exactly this was granted for a workspace. A grant for once is used up by this.
    pub async fn use_approval(&self, workspace: WorkspaceId, asked: &Asked) -> Result<bool, Failure> {
        let grant = self.records.use_grant(workspace, &digest(asked), self.clock.now()).await?;
        Ok(grant.is_some())
    }

    /// The requests that a caller may see, newest first: one of them, those that wait for an answer, or all.
    pub(crate) async fn requests_for(
        &self,
        caller: &Caller,
        reference: Option<&str>,
        all: bool,
    ) -> Result<Vec<ApprovalBrief>, Failure> {
        let approver = self.approver(caller).await?;
        if let Some(reference) = reference {
            let request = self.request_called(approver, reference).await?;
            let owner = self.owner_if_any(request.workspace).await?;
            return Ok(vec![self.approval_brief(&request, approver, owner)]);
        }
        let state = (!all).then_some(ApprovalState::Open);
        let requests = self.records.approvals(state, LISTED).await?;
        let settings: BTreeMap<WorkspaceId, Settings> = self.records.all_settings().await?;
        let owner_of = |request: &Approval| settings.get(&request.workspace).and_then(|one| one.owner);
        let seen = requests.iter().filter(|one| may_see(approver, one, owner_of(one)));
        Ok(seen.map(|one| self.approval_brief(one, approver, owner_of(one))).collect())
    }

    /// Answers a request, if the caller may.
    pub(crate) async fn answer_request(
        self: &Arc<Self>,
        caller: &Caller,
        reference: &str,
        answer: Answer,
    ) -> Result<ApprovalBrief, Failure> {
        let _turn = self.approvals.answering.lock().await;
        let approver = self.approver(caller).await?;
        let request = self.request_called(approver, reference).await?;
        let owner = self.owner_if_any(request.workspace).await?;
        may_answer(approver, &request, owner)
            .and_then(|()| may_answer_so(approver, answer))
            .map_err(|refusal| refused(refusal, reference))?;
        self.carry_out(&request, answer).await?;
        let now = self.clock.now();
        let until = match answer {
            Answer::Grant(GrantScope::Once) => Some(now + ONCE),
            Answer::Grant(GrantScope::Workspace | GrantScope::Always) => None,
            Answer::Deny => Some(now + DENIAL),
        };
        let answer = NewAnswer { id: request.id, answer, by: caller.session, at: now, until };
        let answered = self.records.answer_approval(answer).await?;
        if answered != request {
            let kind = match answered.state {
                ApprovalState::Denied => EventKind::ApprovalDenied,
                _ => EventKind::ApprovalGranted,
            };
            self.tell_of(kind, &answered).await;
            self.approvals.note();
        }
        Ok(self.approval_brief(&answered, approver, owner))
    }

    /// Ends requests, grants and denials whose time is over. If what a grant opened cannot be closed, it is tried again.
    pub(crate) async fn end_approvals(self: &Arc<Self>) -> Result<(), Failure> {
        let _turn = self.approvals.answering.lock().await;
        let now = self.clock.now();
        let due = self.records.due_approvals(now).await?;
        if due.is_empty() {
            return Ok(());
        }
        self.close_overdue(&due).await?;
        for request in self.records.end_approvals(now).await? {
            self.tell_of(EventKind::ApprovalExpired, &request).await;
        }
        self.approvals.note();
        Ok(())
    }

    pub(crate) async fn prune_approvals(&self) {
        if let Err(failure) = self.records.prune_approvals(KEPT).await {
            tracing::warn!(%failure, "could not remove old requests for approval");
        }
    }

    /// Who a caller is when it answers requests.
    async fn approver(&self, caller: &Caller) -> Result<Approver, Failure> {
        let is_named = match caller.session {
            Some(session) => self.records.approvers().await?.contains(&session),
            None => false,
        };
        Ok(Approver { principal: caller.principal(), is_named })
    }

    /// The request that a reference means, if the caller may see it. Only the operator may give a prefix.
    async fn request_called(&self, approver: Approver, reference: &str) -> Result<Approval, Failure> {
        let found = match reference.parse::<ApprovalId>() {
            Ok(id) => self.records.approval(id).await?,
            Err(_) if approver.principal == Principal::Operator && reference.len() >= SHORTEST => {
                let mut all = self.records.approvals(None, LISTED).await?;
                let reference = reference.to_lowercase();
                all.retain(|one| one.id.to_string().starts_with(&reference));
                match all.len() {
                    0 | 1 => all.pop(),
                    _ => return Err(ambiguous(&reference)),
                }
            }
            Err(_) => None,
        };
        let Some(request) = found else { return Err(unknown(reference)) };
        let owner = self.owner_if_any(request.workspace).await?;
        if may_see(approver, &request, owner) { Ok(request) } else { Err(unknown(reference)) }
    }

    /// The session that owns a workspace, which may be gone.
    async fn owner_if_any(&self, workspace: WorkspaceId) -> Result<Option<SessionId>, Failure> {
        match self.records.settings(workspace).await {
            Ok(settings) => Ok(settings.owner),
            Err(failure) if failure.code() == Code::WorkspaceNotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn approval_brief(
        &self,
        request: &Approval,
        approver: Approver,
        owner: Option<SessionId>,
    ) -> ApprovalBrief {
        let time = |at: Timestamp| shown(self.clock.on_the_wall(at));
        let answerable = matches!(request.state, ApprovalState::Open | ApprovalState::Granted);
        ApprovalBrief {
            request_id: request.id.to_string(),
            kind: request.asked.kind(),
            asked: json!(request.asked),
            summary: request.asked.to_string(),
            reason: request.reason.clone(),
            workspace_id: request.workspace.to_string(),
            workspace_name: request.workspace_name.to_string(),
            session_id: request.asked_by.map(|session| session.to_string()),
            client: request.client.clone(),
            state: request.state,
            scope: request.scope,
            created_at: time(request.created),
            until: request.until.map(time),
            can_answer: answerable && may_answer(approver, request, owner).is_ok(),
        }
    }

    /// Sends an event about a request to those who see the workspace, and to approvers.
    async fn tell_of(&self, kind: EventKind, request: &Approval) {
        let (id, name) = (request.workspace, request.workspace_name.as_str());
        let note = format!("{}: {}", request.id, request.asked);
        let audience = self.events.audience_of(id).await;
        self.events.tell_to(audience, kind, id, name, Some(note.clone()));
        let approvers = match self.records.approvers().await {
            Ok(approvers) => approvers,
            Err(failure) => return tracing::warn!(%failure, "could not tell approvers of a request"),
        };
        for approver in approvers.into_iter().filter(|one| audience != Audience::Owner(*one)) {
            self.events.tell_to(Audience::Approver(approver), kind, id, name, Some(note.clone()));
        }
    }
}

/// Identifies what is asked for.
fn digest(asked: &Asked) -> [u8; 32] {
    *blake3::hash(&asked.canonical()).as_bytes()
}

fn unknown(reference: &str) -> Failure {
    let reference: String = reference.chars().take(64).collect();
    Failure::new(Code::ApprovalNotFound, format!("there is no request for approval {reference:?}"))
        .with_remedy("list the requests with inbox_list; those of a removed workspace are removed with it")
}

fn ambiguous(reference: &str) -> Failure {
    Failure::new(
        Code::ApprovalNotFound,
        format!("several requests for approval have ids that begin with {reference:?}"),
    )
    .with_remedy("give more characters of the id")
}

fn refused(refusal: Refusal, reference: &str) -> Failure {
    match refusal {
        Refusal::Hidden => unknown(reference),
        Refusal::ForAll => {
            Failure::new(Code::NotPermitted, "only the operator grants a request for all workspaces")
                .with_remedy("grant it with scope once or workspace, or ask the operator")
        }
        Refusal::OwnRequest => Failure::new(
            Code::NotPermitted,
            "a session cannot answer requests of its own workspaces",
        )
        .with_remedy(
            "ask the operator to answer it with `agentiso inbox`; inbox_list with request_id and wait_secs \
                     waits for the answer",
        ),
    }
}
