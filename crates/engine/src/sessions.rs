//! Sessions: who a client is, and what is theirs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentiso_core::{Code, Failure, SessionId, WorkspaceId};
use agentiso_meta::{MAX_CLIENT, Session, SessionKind};
use jiff::Timestamp;
use uuid::Uuid;

use crate::output::cut;
use crate::rooms::locked;
use crate::{Caller, Engine};

/// Bytes of a token.
const TOKEN_BYTES: usize = 32;
/// How long a client may be away before its session ends: it may be on its way back.
const ABSENCE: Duration = Duration::from_secs(10);

/// What the user's own agent is called.
const USERS_AGENT: &str = "mcp over http";

/// A session that has just begun.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// What shows that it is the same client again. It is told once and never stored.
    pub token: String,
}

/// When sessions were last active. Written to the database now and then, because every call would be too often.
#[derive(Default)]
pub(crate) struct Activity {
    active: Mutex<BTreeMap<SessionId, Timestamp>>,
    present: Mutex<BTreeMap<SessionId, usize>>,
    /// How many calls of each session are being carried out.
    calls: Arc<Mutex<BTreeMap<SessionId, usize>>>,
    /// So that what there is one of begins once.
    beginning: Mutex<()>,
}

impl Activity {
    /// Notes that a caller asked for something.
    pub fn touch(&self, caller: &Caller) {
        if let Some(session) = caller.session {
            locked(&self.active).insert(session, crate::clock::now());
        }
    }

    /// Counts a call of a session for as long as what is returned lives.
    pub fn calling(&self, caller: &Caller) -> Option<Calling> {
        let session = caller.session?;
        *locked(&self.calls).entry(session).or_default() += 1;
        Some(Calling { calls: Arc::clone(&self.calls), session })
    }

    /// Why nothing may be taken from a session, however long it has been idle.
    fn in_use(&self, session: SessionId) -> Option<&'static str> {
        if self.is_present(session) {
            return Some("whose client is connected");
        }
        locked(&self.calls).contains_key(&session).then_some("that has a call running")
    }

    /// Whether a session's client is there.
    fn is_present(&self, session: SessionId) -> bool {
        locked(&self.present).contains_key(&session)
    }

    /// Says whether that was the last.
    fn leave(&self, session: SessionId) -> bool {
        let mut present = locked(&self.present);
        let Some(count) = present.get_mut(&session) else { return true };
        *count -= 1;
        let alone = *count == 0;
        if alone {
            present.remove(&session);
        }
        alone
    }

    /// When a session was last active, if it was since the database was told.
    pub fn last(&self, session: SessionId) -> Option<Timestamp> {
        locked(&self.active).get(&session).copied()
    }

    /// Which sessions were active since this was last asked.
    pub fn take(&self) -> BTreeMap<SessionId, Timestamp> {
        std::mem::take(&mut *locked(&self.active))
    }
}

/// A call of a session that is being carried out.
pub(crate) struct Calling {
    calls: Arc<Mutex<BTreeMap<SessionId, usize>>>,
    session: SessionId,
}

impl Drop for Calling {
    fn drop(&mut self) {
        let mut calls = locked(&self.calls);
        if let Some(count) = calls.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                calls.remove(&self.session);
            }
        }
    }
}

/// A client that is there. When it has gone for a while its session ends.
pub struct Presence {
    engine: Arc<Engine>,
    session: SessionId,
    kept: bool,
}

impl Presence {
    /// Leaves the session as it is.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let (engine, session) = (Arc::clone(&self.engine), self.session);
        let alone = engine.sessions.leave(session);
        if self.kept || !alone {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::time::sleep(ABSENCE).await;
            if !engine.sessions.is_present(session)
                && let Err(failure) = engine.end_session(session)
            {
                tracing::debug!(%failure, "a session had ended already");
            }
        });
    }
}

impl Engine {
    /// Notes that the client of a session is there, for as long as what is returned.
    pub fn attend(self: &Arc<Self>, session: SessionId) -> Presence {
        *locked(&self.sessions.present).entry(session).or_default() += 1;
        self.workspaces.expect_creates();
        Presence { engine: Arc::clone(self), session, kept: false }
    }

    /// Begins a session.
    pub fn begin_session(&self, kind: SessionKind, client: &str) -> Result<NewSession, Failure> {
        let id = SessionId::from_uuid(Uuid::new_v4());
        let token = new_token()?;
        let now = crate::clock::now();
        let session = Session {
            id,
            kind,
            client: plain(client),
            token_hash: hash(&token),
            created: now,
            last_active: now,
        };
        self.meta().write(|tx| tx.insert_session(&session))?;
        self.workspaces.expect_creates();
        Ok(NewSession { id, token })
    }

    /// Who has a token.
    pub fn caller_of(&self, token: &str) -> Result<Caller, Failure> {
        let found = self.meta().read(|read| read.session_by_token(&hash(token)))?;
        let session = found.ok_or_else(|| {
            Failure::new(Code::Unauthorized, "no session has this token")
                .with_remedy("begin a new session; workspaces of an ended one can be adopted")
        })?;
        Ok(Caller { session: Some(session.id), client: session.client })
    }

    /// Whether a session has not ended. One that cannot be looked up has not: only a missing one has.
    pub fn has_session(&self, id: SessionId) -> bool {
        self.meta().read(|read| read.session_if_known(id)).map_or(true, |found| found.is_some())
    }

    /// Who an agent is that comes with the user's own token: the same one for as long as it owns anything, whichever
    /// daemon runs.
    pub fn agent_of_the_user(&self) -> Result<(SessionId, Caller), Failure> {
        let _one_at_a_time = locked(&self.sessions.beginning);
        let sessions = self.meta().read(|read| read.sessions())?;
        // No client that names itself can have this kind.
        let known =
            sessions.into_iter().find(|one| one.kind == SessionKind::Local && one.client == USERS_AGENT);
        let id = match known {
            Some(session) => session.id,
            None => self.begin_session(SessionKind::Local, USERS_AGENT)?.id,
        };
        Ok((id, Caller { session: Some(id), client: USERS_AGENT.to_owned() }))
    }

    /// Ends a session. What was its own is nobody's from then on.
    pub fn end_session(&self, id: SessionId) -> Result<(), Failure> {
        Ok(self.meta().write(|tx| tx.remove_session(id))?)
    }

    /// Makes a session the owner of a workspace that is nobody's, or whose owner has been idle for `idle`.
    pub(crate) fn adopt(
        &self,
        session: SessionId,
        workspace: WorkspaceId,
        idle: Duration,
    ) -> Result<(), Failure> {
        let _one_at_a_time = self.quota.turn();
        let (found, owner) = self.meta().read(|read| {
            let owner = read.settings(workspace)?.owner;
            let owner = owner.map(|owner| read.session(owner)).transpose()?;
            Ok((read.workspace(workspace)?, owner))
        })?;
        if owner.as_ref().is_some_and(|owner| owner.id == session) {
            return Ok(());
        }
        if let Some(owner) = owner {
            if let Some(reason) = self.sessions.in_use(owner.id) {
                let name = found.name.as_str();
                let message = format!("the workspace {name:?} belongs to a session {reason}");
                return Err(Failure::new(Code::NotOwner, message)
                    .with_remedy("use another workspace, or try again when its client has gone"));
            }
            let last = self.sessions.last(owner.id).unwrap_or(owner.last_active);
            let idle_for = crate::clock::now().duration_since(last);
            if Duration::try_from(idle_for).unwrap_or_default() < idle {
                let message = format!(
                    "the workspace {:?} belongs to a session that was active {} s ago",
                    found.name.as_str(),
                    idle_for.as_secs().max(0)
                );
                return Err(Failure::new(Code::NotOwner, message).with_remedy(format!(
                    "try again with force when it has been idle for {} s",
                    self.config().sessions.adopt_idle_secs
                )));
            }
        }
        self.quota.require_own(self, session, crate::quota::Asked::of(&found.resources))?;
        Ok(self.meta().write(|tx| tx.set_owner(workspace, Some(session)))?)
    }
}

/// A secret nobody can guess.
pub fn new_token() -> Result<String, Failure> {
    let mut bytes = [0; TOKEN_BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| Failure::new(Code::Io, format!("could not read random bytes: {errno}")))?;
    Ok(bytes.iter().fold(String::from("agentiso-"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

fn hash(token: &str) -> [u8; 32] {
    *blake3::hash(token.as_bytes()).as_bytes()
}

/// A client's name as it can be shown in a table.
fn plain(client: &str) -> String {
    let shown: String = client.chars().filter(|c| !c.is_control()).take(MAX_CLIENT).collect();
    if shown.trim().is_empty() { "unknown".to_owned() } else { cut(&shown, MAX_CLIENT).to_owned() }
}
