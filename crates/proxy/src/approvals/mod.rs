//! Approvals of commands, in the queue of the installation.
//!
//! Requests of `avfs` are rows of the same table as those of workspaces, so they work without a daemon, and `agentiso
//! inbox` and `avfs inbox` show and answer both. The database is opened only when a command needs approval.
//!
//! A request is bound to the digest of exactly what was asked for. Its id is the token that uses a grant, once. Who asked
//! is recorded as a session that stands for the POSIX session of the asker (see [`Asker`]), so that the rules for
//! sessions apply: whoever asked may not answer.

mod asker;
mod granting;

use std::path::PathBuf;
use std::time::Duration;

use agentiso_core::approval::{Answer, Approval, ApprovalState, Asked, GrantScope, MAX_REASON, OpenLimits};
use agentiso_core::ports::Clock;
use agentiso_core::ports::records::{NewAnswer, Raised};
use agentiso_core::{ApprovalId, Code, Failure, WorkspaceId, WorkspaceName};
use agentiso_meta::Meta;
use jiff::Timestamp;
use uuid::Uuid;

pub use asker::Asker;
pub use granting::Granting;
pub(crate) use granting::INSIDE;

/// How long a request waits for an answer.
const OPEN: Duration = Duration::from_secs(3600);
/// How long a grant for once can be used.
const ONCE: Duration = Duration::from_secs(600);
/// How long equal requests are refused after one was denied.
const DENIAL: Duration = Duration::from_secs(3600);
/// The most requests that are listed.
const LISTED: u32 = 2000;
/// The fewest characters of an id by which a request can be named.
const SHORTEST: usize = 6;

/// The queue of an installation.
pub struct Approvals<'a> {
    database: PathBuf,
    clock: &'a dyn Clock,
}

/// What the queue says about a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// It was granted, and if the grant was for once, it is used up now.
    Granted(Approval),
    /// It waits for an answer.
    Waiting(Approval),
    /// It was granted for once: it needs the token.
    NeedsToken(Approval),
    /// It was denied.
    Denied(Approval),
}

impl<'a> Approvals<'a> {
    /// The queue in a database, which is created when the first request is raised.
    pub fn new(database: PathBuf, clock: &'a dyn Clock) -> Self {
        Self { database, clock }
    }

    /// Uses a grant for exactly this request, or raises the request. With a token, the grant must be that one.
    pub fn request(
        &self,
        vault: Uuid,
        vault_name: &str,
        asked: Asked,
        reason: &str,
        asker: &Asker,
        token: Option<&str>,
    ) -> Result<Standing, Failure> {
        let meta = self.open()?;
        let now = self.clock.now();
        let request = Approval {
            id: ApprovalId::from_uuid(Uuid::new_v4()),
            workspace: WorkspaceId::from_uuid(vault),
            workspace_name: shown_name(vault_name)?,
            asked_by: Some(asker.session()),
            client: asker.client(),
            digest: digest(&asked),
            asked,
            reason: reason.chars().take(MAX_REASON).collect(),
            created: now,
            until: now.checked_add(OPEN).ok(),
            state: ApprovalState::Open,
            scope: None,
            answered_by: None,
        };
        if let Some(token) = token {
            return self.redeem(&meta, &request, token, now);
        }
        let raised = meta.write(|tx| tx.raise_approval(&request, OpenLimits::DEFAULT))??;
        Ok(match raised {
            Raised::New(one) | Raised::Waiting(one) => Standing::Waiting(one),
            Raised::Granted(one) if one.scope == Some(GrantScope::Once) => Standing::NeedsToken(one),
            Raised::Granted(one) => Standing::Granted(one),
            Raised::Denied(one) => Standing::Denied(one),
        })
    }

    /// Uses the grant with this token.
    fn redeem(
        &self,
        meta: &Meta,
        request: &Approval,
        token: &str,
        now: Timestamp,
    ) -> Result<Standing, Failure> {
        let id: ApprovalId = token.parse().map_err(|_| unknown(token))?;
        let found = meta.write(|tx| {
            let Some(one) = tx.approval(id)? else { return Ok(None) };
            let holds = one.until.is_none_or(|until| until > now);
            if one.digest != request.digest || one.state != ApprovalState::Granted || !holds {
                return Ok(Some((one, None)));
            }
            Ok(Some((one, tx.use_grant(request.workspace, &request.digest, now)?)))
        })?;
        let Some((one, used)) = found else { return Err(unknown(token)) };
        if let Some(used) = used {
            return Ok(Standing::Granted(used));
        }
        let id = one.id;
        if one.digest != request.digest || one.workspace != request.workspace {
            return Err(Failure::new(
                Code::ApprovalRequired,
                format!("the approval {id} is for another command: {}", one.asked),
            )
            .with_remedy("a token is good for exactly what was approved; ask again without --approve"));
        }
        match one.state {
            ApprovalState::Open if one.until.is_none_or(|until| until > now) => Ok(Standing::Waiting(one)),
            ApprovalState::Denied => Ok(Standing::Denied(one)),
            ApprovalState::Used => {
                Err(over(format!("the approval {id} was used already, and it was for once")))
            }
            _ => Err(over(format!("the approval {id} has expired"))),
        }
    }

    /// The requests, newest first: those that wait for an answer, or all.
    pub fn list(&self, all: bool) -> Result<Vec<Approval>, Failure> {
        if !self.exists()? {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let state = (!all).then_some(ApprovalState::Open);
        let mut listed = self.open()?.read(|read| read.approvals(state, LISTED))?;
        for one in &mut listed {
            // The daemon records it when it next looks.
            if one.state == ApprovalState::Open && one.until.is_some_and(|until| until <= now) {
                one.state = ApprovalState::Expired;
            }
        }
        listed.retain(|one| all || one.state == ApprovalState::Open);
        Ok(listed)
    }

    /// The request that an id, or the beginning of one, means.
    pub fn find(&self, reference: &str) -> Result<Approval, Failure> {
        if !self.exists()? {
            return Err(unknown(reference));
        }
        let wanted = reference.to_lowercase();
        if wanted.len() < SHORTEST {
            return Err(unknown(reference));
        }
        let mut found = self.open()?.read(|read| read.approvals(None, LISTED))?;
        found.retain(|one| one.id.to_string().starts_with(&wanted));
        match (found.pop(), found.is_empty()) {
            (Some(one), true) => Ok(one),
            (Some(_), false) => Err(Failure::new(
                Code::ApprovalNotFound,
                format!("several requests for approval have ids that begin with {wanted:?}"),
            )
            .with_remedy("give more characters of the id")),
            (None, _) => Err(unknown(reference)),
        }
    }

    /// Answers a request of a vault. `granting` says that the owner does.
    pub fn answer(
        &self,
        reference: &str,
        answer: Answer,
        granting: &Granting<'_>,
    ) -> Result<Approval, Failure> {
        let request = self.find(reference)?;
        if !matches!(request.asked, Asked::VaultCommand { .. }) {
            return Err(Failure::new(
                Code::NotPermitted,
                format!("the request {} is not one of a vault", request.id),
            )
            .with_remedy("answer it with agentiso inbox"));
        }
        if matches!(answer, Answer::Grant(_)) {
            granting.check(request.asked_by)?;
        }
        let at = self.clock.now();
        let until = match answer {
            Answer::Grant(GrantScope::Once) => at.checked_add(ONCE).ok(),
            Answer::Grant(GrantScope::Workspace | GrantScope::Always) => None,
            Answer::Deny => at.checked_add(DENIAL).ok(),
        };
        let answer = NewAnswer { id: request.id, answer, by: None, at, until };
        self.open()?.write(|tx| tx.answer_approval(answer))?
    }

    /// What the wall clock shows at a time of a request.
    pub fn shown(&self, at: Timestamp) -> String {
        self.clock.on_the_wall(at).to_string()
    }

    fn exists(&self) -> Result<bool, Failure> {
        self.database.try_exists().map_err(|error| {
            Failure::new(
                Code::of_io(&error),
                format!("could not look for {}: {error}", self.database.display()),
            )
        })
    }

    fn open(&self) -> Result<Meta, Failure> {
        Ok(Meta::open(&self.database)?)
    }
}

/// Identifies what is asked for.
pub fn digest(asked: &Asked) -> [u8; 32] {
    *blake3::hash(&asked.canonical()).as_bytes()
}

/// The name of a vault as a name of a workspace can be: for lists. The request has the exact one.
fn shown_name(vault: &str) -> Result<WorkspaceName, Failure> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = "vault-".chars().chain(vault.chars().map(plain)).take(WorkspaceName::MAX).collect();
    Ok(name.trim_end_matches('-').parse()?)
}

fn unknown(reference: &str) -> Failure {
    let reference: String = reference.chars().take(64).collect();
    Failure::new(Code::ApprovalNotFound, format!("there is no request for approval {reference:?}"))
        .with_remedy("avfs inbox list shows the requests")
}

fn over(message: String) -> Failure {
    Failure::new(Code::ApprovalClosed, message).with_remedy("ask again without --approve")
}

#[cfg(test)]
mod tests;
