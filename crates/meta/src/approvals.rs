//! Requests for approval, and the sessions that may answer them.

use agentiso_core::approval::{
    Approval, ApprovalState, Asked, Counts, GrantScope, MAX_ASKED, MAX_REASON, OpenLimits, Transition,
    transition,
};
use agentiso_core::ports::records::{ApprovalRecords, NewAnswer, Raised};
use agentiso_core::{ApprovalId, Code, Failure, SessionId, WorkspaceId};
use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Row, named_params};

use crate::stored::{Stored, get, get_if_any};
use crate::{MAX_CLIENT, Meta, MetaError, Read, Tx};

impl Read<'_> {
    /// Returns a request, or `None` if it does not exist.
    pub fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, MetaError> {
        self.one("SELECT * FROM approvals WHERE id = ?1", [Stored(id)], read)
    }

    /// Returns the newest requests, newest first; those in one state, or all.
    pub fn approvals(&self, state: Option<ApprovalState>, limit: u32) -> Result<Vec<Approval>, MetaError> {
        let sql = "SELECT * FROM approvals WHERE ?1 IS NULL OR state = ?1 ORDER BY created DESC, id LIMIT ?2";
        self.all(sql, (state.map(ApprovalState::as_str), limit), read)
    }

    /// Returns the requests whose state ends by then, oldest first.
    pub fn due_approvals(&self, at: Timestamp) -> Result<Vec<Approval>, MetaError> {
        self.all("SELECT * FROM approvals WHERE until <= ?1 ORDER BY created, id", [Stored(at)], read)
    }

    /// Returns the sessions that may answer requests of others.
    pub fn approvers(&self) -> Result<Vec<SessionId>, MetaError> {
        self.all("SELECT session FROM approvers ORDER BY session", [], |row| get(row, "session"))
    }

    /// Returns the requests with a digest whose state still means something: open ones, and answers that hold.
    fn standing(&self, digest: &[u8; 32], at: Timestamp) -> Result<Vec<Approval>, MetaError> {
        let sql = "SELECT * FROM approvals WHERE digest = ?1 AND state IN ('open', 'granted', 'denied')
                   AND (until > ?2 OR (until IS NULL AND state = 'granted')) ORDER BY created";
        self.all(sql, (digest, Stored(at)), read)
    }

    fn open_counts(&self, request: &Approval) -> Result<Counts, MetaError> {
        let sql = "SELECT count(*) AS every, count(*) FILTER (WHERE workspace = ?1) AS workspaces,
                   count(*) FILTER (WHERE asked_by = ?2) AS sessions FROM approvals WHERE state = 'open'";
        let counts = self.one(sql, (Stored(request.workspace), request.asked_by.map(Stored)), |row| {
            Ok(Counts {
                workspace: row.get("workspaces")?,
                session: row.get("sessions")?,
                all: row.get("every")?,
            })
        })?;
        Ok(counts.unwrap_or_default())
    }
}

impl Tx<'_> {
    /// Stores an open request, unless an equal one is open or answered.
    pub fn raise_approval(
        &self,
        request: &Approval,
        limits: OpenLimits,
    ) -> Result<Result<Raised, Failure>, MetaError> {
        let now = request.created;
        self.expire_open_approvals(now)?;
        let standing = self.standing(&request.digest, now)?;
        let ours = |one: &&Approval| one.workspace == request.workspace;
        let granted = |one: &&Approval| {
            one.state == ApprovalState::Granted
                && (one.workspace == request.workspace || one.scope == Some(GrantScope::Always))
        };
        if let Some(granted) = standing.iter().find(granted) {
            return Ok(Ok(Raised::Granted(granted.clone())));
        }
        match standing.iter().find(ours) {
            Some(waiting) if waiting.state == ApprovalState::Open => {
                return Ok(Ok(Raised::Waiting(waiting.clone())));
            }
            Some(denied) => return Ok(Ok(Raised::Denied(denied.clone()))),
            None => {}
        }
        if let Err(failure) = limits.admit(self.open_counts(request)?) {
            return Ok(Err(failure));
        }
        self.insert_approval(request)?;
        Ok(Ok(Raised::New(request.clone())))
    }

    fn insert_approval(&self, request: &Approval) -> Result<(), MetaError> {
        MetaError::require_short("client's name", &request.client, MAX_CLIENT)?;
        MetaError::require_short("reason", &request.reason, MAX_REASON)?;
        // Vaults are not recorded here.
        if !matches!(request.asked, Asked::VaultCommand { .. }) {
            self.workspace(request.workspace)?;
        }
        let asked = serde_json::to_string(&request.asked)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        if asked.len() > MAX_ASKED {
            return Err(MetaError::TooLong { what: "request", max: MAX_ASKED, unit: "bytes" });
        }
        self.execute(
            "INSERT INTO approvals (id, workspace, workspace_name, asked_by, client, asked, digest, reason, created,
               until, state, scope, answered_by)
             VALUES (:id, :workspace, :workspace_name, :asked_by, :client, :asked, :digest, :reason, :created,
               :until, :state, :scope, :answered_by)",
            named_params! {
                ":id": Stored(request.id),
                ":workspace": Stored(request.workspace),
                ":workspace_name": request.workspace_name.as_str(),
                ":asked_by": request.asked_by.map(Stored),
                ":client": request.client,
                ":asked": asked,
                ":digest": request.digest,
                ":reason": request.reason,
                ":created": Stored(request.created),
                ":until": request.until.map(Stored),
                ":state": request.state.as_str(),
                ":scope": request.scope.map(GrantScope::as_str),
                ":answered_by": request.answered_by.map(Stored),
            },
        )?;
        Ok(())
    }

    /// Answers a request.
    pub fn answer_approval(&self, answer: NewAnswer) -> Result<Result<Approval, Failure>, MetaError> {
        self.expire_open_approvals(answer.at)?;
        let Some(request) = self.approval(answer.id)? else { return Ok(Err(unknown(answer.id))) };
        let (state, scope) = match transition(request.state, request.scope, answer.answer) {
            Transition::To(state, scope) => (state, scope),
            Transition::Unchanged => return Ok(Ok(request)),
            Transition::Closed => return Ok(Err(closed(&request))),
        };
        let answered = Approval { state, scope, until: answer.until, answered_by: answer.by, ..request };
        self.set_approval(&answered)?;
        Ok(Ok(answered))
    }

    fn set_approval(&self, request: &Approval) -> Result<(), MetaError> {
        let sql = "UPDATE approvals SET state = ?2, scope = ?3, until = ?4, answered_by = ?5 WHERE id = ?1";
        let (state, scope) = (request.state.as_str(), request.scope.map(GrantScope::as_str));
        let (until, by) = (request.until.map(Stored), request.answered_by.map(Stored));
        self.change_one("request", request.id, sql, (Stored(request.id), state, scope, until, by))
    }

    /// Finds a grant, and uses it up if it is for once.
    pub fn use_grant(
        &self,
        workspace: WorkspaceId,
        digest: &[u8; 32],
        at: Timestamp,
    ) -> Result<Option<Approval>, MetaError> {
        let covers = |one: &Approval| match one.scope {
            Some(GrantScope::Always) => true,
            Some(GrantScope::Once | GrantScope::Workspace) => one.workspace == workspace,
            None => false,
        };
        let mut grants = self.standing(digest, at)?;
        grants.retain(|one| one.state == ApprovalState::Granted && covers(one));
        // One that lasts is used before one that would be used up.
        grants.sort_by_key(|one| std::cmp::Reverse(one.scope));
        let Some(grant) = grants.into_iter().next() else { return Ok(None) };
        if grant.scope != Some(GrantScope::Once) {
            return Ok(Some(grant));
        }
        let used = Approval { state: ApprovalState::Used, until: None, ..grant };
        self.set_approval(&used)?;
        Ok(Some(used))
    }

    /// Ends open requests that nobody answered in time. Grants are not ended here: what they opened has to be closed first.
    fn expire_open_approvals(&self, at: Timestamp) -> Result<(), MetaError> {
        let sql = "UPDATE approvals SET state = 'expired', until = NULL WHERE state = 'open' AND until <= ?1";
        self.execute(sql, [Stored(at)])?;
        Ok(())
    }

    fn end_approvals(&self, at: Timestamp) -> Result<Vec<Approval>, MetaError> {
        let mut ended = Vec::new();
        for request in self.due_approvals(at)? {
            let state = match (request.state, &request.asked) {
                (ApprovalState::Granted, Asked::Network { .. }) => ApprovalState::Used,
                (ApprovalState::Open | ApprovalState::Granted, _) => ApprovalState::Expired,
                (other, _) => other,
            };
            let over = Approval { state, until: None, ..request };
            self.set_approval(&over)?;
            if over.state != ApprovalState::Denied {
                ended.push(over);
            }
        }
        Ok(ended)
    }

    fn prune_approvals(&self, keep_newest: u32) -> Result<(), MetaError> {
        self.execute(
            "DELETE FROM approvals WHERE until IS NULL AND state IN ('denied', 'expired', 'used') AND id NOT IN
             (SELECT id FROM approvals WHERE until IS NULL AND state IN ('denied', 'expired', 'used')
              ORDER BY created DESC, id LIMIT ?1)",
            [keep_newest],
        )?;
        Ok(())
    }

    fn set_approver(&self, session: SessionId, named: bool) -> Result<(), MetaError> {
        self.session(session)?;
        let sql = match named {
            true => "INSERT OR IGNORE INTO approvers (session) VALUES (?1)",
            false => "DELETE FROM approvers WHERE session = ?1",
        };
        self.execute(sql, [Stored(session)])?;
        Ok(())
    }
}

#[async_trait]
impl ApprovalRecords for Meta {
    async fn raise_approval(&self, request: &Approval, limits: OpenLimits) -> Result<Raised, Failure> {
        let request = request.clone();
        self.change(move |tx| tx.raise_approval(&request, limits)).await?
    }

    async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, Failure> {
        self.ask(move |read| read.approval(id)).await
    }

    async fn approvals(&self, state: Option<ApprovalState>, limit: u32) -> Result<Vec<Approval>, Failure> {
        self.ask(move |read| read.approvals(state, limit)).await
    }

    async fn answer_approval(&self, answer: NewAnswer) -> Result<Approval, Failure> {
        self.change(move |tx| tx.answer_approval(answer)).await?
    }

    async fn use_grant(
        &self,
        workspace: WorkspaceId,
        digest: &[u8; 32],
        at: Timestamp,
    ) -> Result<Option<Approval>, Failure> {
        let digest = *digest;
        self.change(move |tx| tx.use_grant(workspace, &digest, at)).await
    }

    async fn due_approvals(&self, at: Timestamp) -> Result<Vec<Approval>, Failure> {
        self.ask(move |read| read.due_approvals(at)).await
    }

    async fn end_approvals(&self, at: Timestamp) -> Result<Vec<Approval>, Failure> {
        self.change(move |tx| tx.end_approvals(at)).await
    }

    async fn prune_approvals(&self, keep_newest: u32) -> Result<(), Failure> {
        self.change(move |tx| tx.prune_approvals(keep_newest)).await
    }

    async fn approvers(&self) -> Result<Vec<SessionId>, Failure> {
        self.ask(|read| read.approvers()).await
    }

    async fn set_approver(&self, session: SessionId, named: bool) -> Result<(), Failure> {
        self.change(move |tx| tx.set_approver(session, named)).await
    }
}

fn unknown(id: ApprovalId) -> Failure {
    Failure::new(Code::ApprovalNotFound, format!("there is no request for approval {id}"))
        .with_remedy("list the requests with inbox_list; those of a removed workspace are removed with it")
}

fn closed(request: &Approval) -> Failure {
    let state = request.state;
    Failure::new(Code::ApprovalClosed, format!("the request is {state} and can no longer be answered so"))
        .with_remedy("a new attempt raises a new request; a grant that holds can be revoked with inbox_deny")
}

macro_rules! stored_words {
    ($($type:ident)*) => { $(
        impl FromSql for Stored<$type> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                $type::named(value.as_str()?).map(Self).ok_or(FromSqlError::InvalidType)
            }
        }
    )* };
}

stored_words! { ApprovalState GrantScope }

fn read(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let asked: Stored<serde_json::Value> = row.get("asked")?;
    let asked = serde_json::from_value(asked.0).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(Approval {
        id: get(row, "id")?,
        workspace: get(row, "workspace")?,
        workspace_name: get(row, "workspace_name")?,
        asked_by: get_if_any(row, "asked_by")?,
        client: row.get("client")?,
        asked,
        digest: row.get("digest")?,
        reason: row.get("reason")?,
        created: get(row, "created")?,
        until: get_if_any(row, "until")?,
        state: get(row, "state")?,
        scope: get_if_any(row, "scope")?,
        answered_by: get_if_any(row, "answered_by")?,
    })
}
