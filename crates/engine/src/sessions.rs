//! Sessions: the identities of clients, their activity and their end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentiso_core::ports::Clock;
use agentiso_core::ports::records::{MAX_CLIENT, Session, SessionKind};
use agentiso_core::{Code, Failure, SessionId};
use jiff::Timestamp;
use uuid::Uuid;

use crate::live_state::locked;
use crate::output::cut;
use crate::{Caller, Engine};

/// Bytes of a token.
const TOKEN_BYTES: usize = 32;
/// How long a client may be disconnected before its session ends: it may reconnect.
const ABSENCE: Duration = Duration::from_secs(10);

/// The length of the secret that distinguishes clients with the same token.
const SECRET_LENGTHS: RangeInclusive<usize> = 16..=128;
/// The most sessions of an installation.
const MOST_SESSIONS: u64 = 1000;

/// How a client that has the operator's token identifies itself.
#[derive(Clone, Copy, Debug)]
pub enum Identity<'a> {
    /// By a secret.
    Secret(&'a str),
    /// By its name.
    Name(&'a str),
}

/// A session that has just begun.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// The token that identifies the client later. It is returned once and only its hash is stored.
    pub token: String,
}

/// Which sessions are active and connected. Stored every few seconds, because every call would be too often.
pub(crate) struct Activity {
    clock: Arc<dyn Clock>,
    active: Mutex<BTreeMap<SessionId, Timestamp>>,
    present: Mutex<BTreeMap<SessionId, usize>>,
    /// How many calls of each session are being carried out.
    calls: Arc<Mutex<BTreeMap<SessionId, usize>>>,
    /// Held while a session that a client names is looked up and begun, so that it begins once.
    beginning: tokio::sync::Mutex<()>,
}

impl Activity {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            active: Mutex::default(),
            present: Mutex::default(),
            calls: Arc::default(),
            beginning: tokio::sync::Mutex::default(),
        }
    }

    /// Notes that a caller made a call.
    pub fn touch(&self, caller: &Caller) {
        if let Some(session) = caller.session {
            locked(&self.active).insert(session, self.clock.now());
        }
    }

    /// Counts a call of a session for as long as the returned guard lives.
    pub fn calling(&self, caller: &Caller) -> Option<Calling> {
        let session = caller.session?;
        *locked(&self.calls).entry(session).or_default() += 1;
        Some(Calling { calls: Arc::clone(&self.calls), session })
    }

    /// Whether the client of a session is connected or has a call running.
    pub fn in_use(&self, session: SessionId) -> bool {
        self.is_present(session) || self.has_call(session)
    }

    /// Whether a call of a session is being carried out.
    pub fn has_call(&self, session: SessionId) -> bool {
        locked(&self.calls).contains_key(&session)
    }

    /// Whether the client of a session is connected.
    pub fn is_present(&self, session: SessionId) -> bool {
        locked(&self.present).contains_key(&session)
    }

    /// Notes that a client disconnected. Returns whether it was the session's last.
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

    /// When a session was last active, if that has not been stored yet.
    pub fn last(&self, session: SessionId) -> Option<Timestamp> {
        locked(&self.active).get(&session).copied()
    }

    /// The sessions that were active since this was last called.
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

/// A connected client. Some time after it is dropped its session ends, unless the client reconnects.
pub struct Presence {
    engine: Arc<Engine>,
    session: SessionId,
    kept: bool,
}

impl Presence {
    /// Keeps the session after the client disconnects.
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
                && let Err(failure) = engine.end_session(session).await
            {
                tracing::debug!(%failure, "a session had ended already");
            }
        });
    }
}

impl Engine {
    /// Marks the client of a session as connected for as long as the returned guard lives.
    pub fn attend(self: &Arc<Self>, session: SessionId) -> Presence {
        *locked(&self.sessions.present).entry(session).or_default() += 1;
        self.host.expect_creates();
        Presence { engine: Arc::clone(self), session, kept: false }
    }

    /// Begins a session.
    pub async fn begin_session(&self, kind: SessionKind, client: &str) -> Result<NewSession, Failure> {
        let token = new_token()?;
        let id = self.begin(kind, client, hash(&token)).await?;
        Ok(NewSession { id, token })
    }

    async fn begin(
        &self,
        kind: SessionKind,
        client: &str,
        token_hash: [u8; 32],
    ) -> Result<SessionId, Failure> {
        self.make_room_for_session().await?;
        let id = SessionId::from_uuid(Uuid::new_v4());
        let now = self.clock.now();
        let session = Session { id, kind, client: plain(client), token_hash, created: now, last_active: now };
        self.records.insert_session(&session).await?;
        self.host.expect_creates();
        Ok(id)
    }

    /// The caller that a session's token identifies.
    pub async fn caller_of(&self, token: &str) -> Result<Caller, Failure> {
        let found = self.records.session_by_token(&hash(token)).await?;
        let session = found.ok_or_else(|| {
            Failure::new(Code::Unauthorized, "no session has this token")
                .with_remedy("begin a new session; workspaces of an ended one can be adopted")
        })?;
        Ok(Caller { session: Some(session.id), client: session.client })
    }

    /// Whether a session exists. One that cannot be looked up counts as existing.
    pub async fn has_session(&self, id: SessionId) -> bool {
        self.records.session_if_known(id).await.map_or(true, |found| found.is_some())
    }

    /// The session of a client that has the operator's token and identifies itself. It begins with its first call.
    pub async fn client_known_by(&self, identity: Identity<'_>, client: &str) -> Result<Caller, Failure> {
        let hash = identity.hash()?;
        let mut found = self.records.session_by_token(&hash).await?.map(|session| session.id);
        if found.is_none() {
            let _one_at_a_time = self.sessions.beginning.lock().await;
            found = match self.records.session_by_token(&hash).await? {
                Some(session) => Some(session.id),
                None => Some(self.begin(SessionKind::Http, client, hash).await?),
            };
        }
        Ok(Caller { session: found, client: plain(client) })
    }

    /// Ends a session. Its workspaces then have no owner, and its files are removed.
    pub async fn end_session(self: &Arc<Self>, id: SessionId) -> Result<(), Failure> {
        let engine = Arc::clone(self);
        // In its own task: a caller that disconnects must not leave calls of the session running.
        let ending = tokio::spawn(async move {
            for workspace in engine.records.end_session(id).await? {
                engine.live.of(workspace).leave_owner();
            }
            engine.clean_up_after_sessions().await;
            Ok(())
        });
        ending.await.map_err(|error| Failure::new(Code::Internal, error.to_string()))?
    }

    /// Ends the sessions that end with the daemon, when the next one starts.
    pub(crate) async fn end_fleeting_sessions(&self) -> Result<(), Failure> {
        self.records.end_sessions_of(SessionKind::Fleeting).await
    }

    /// Removes the sessions that own nothing and were last active before a moment.
    pub(crate) async fn prune_sessions(&self, silent_since: Timestamp) -> Result<(), Failure> {
        let idle = self.records.sessions_without_workspaces().await?;
        for session in idle.iter().filter(|one| one.last_active < silent_since && self.may_go(one)) {
            self.records.end_session(session.id).await?;
        }
        Ok(())
    }

    /// Makes room for another session: if there are too many, the least recently active one that owns nothing is removed.
    async fn make_room_for_session(&self) -> Result<(), Failure> {
        if self.records.session_count().await? < MOST_SESSIONS {
            return Ok(());
        }
        let idle = self.records.sessions_without_workspaces().await?;
        match idle.iter().find(|session| self.may_go(session)) {
            Some(session) => self.records.end_session(session.id).await.map(drop),
            None => Err(Failure::new(
                Code::QuotaExceeded,
                format!("there are {MOST_SESSIONS} sessions, and all of them own workspaces or are in use"),
            )
            .with_remedy("end sessions or destroy workspaces that are no longer needed")),
        }
    }

    /// Whether a session that owns nothing can be removed.
    fn may_go(&self, session: &Session) -> bool {
        !self.sessions.in_use(session.id) && self.sessions.last(session.id).is_none()
    }

    /// Removes the files of sessions that have ended.
    pub(crate) async fn clean_up_after_sessions(self: &Arc<Self>) {
        if let Err(failure) = self.remove_files_of_ended().await {
            tracing::warn!(%failure, "could not remove the files of ended sessions");
        }
    }

    async fn remove_files_of_ended(self: &Arc<Self>) -> Result<(), Failure> {
        for id in self.records.ended_sessions().await? {
            // A call that is still running may be about to write a file.
            if self.sessions.has_call(id) {
                continue;
            }
            let engine = Arc::clone(self);
            let removing = tokio::task::spawn_blocking(move || engine.remove_transfers(id));
            removing.await.map_err(|error| Failure::new(Code::Internal, error.to_string()))??;
            self.records.forget_ended_session(id).await?;
        }
        Ok(())
    }
}

impl Identity<'_> {
    /// The hash that is stored. It never equals the hash of a token.
    fn hash(self) -> Result<[u8; 32], Failure> {
        match self {
            Self::Secret(secret) => {
                let plain = secret.bytes().all(|byte| byte.is_ascii_graphic());
                if !plain || !SECRET_LENGTHS.contains(&secret.len()) {
                    let message = format!(
                        "a client's own session needs {} to {} letters, digits or signs",
                        SECRET_LENGTHS.start(),
                        SECRET_LENGTHS.end()
                    );
                    return Err(Failure::new(Code::InvalidArgument, message).with_remedy(
                        "send something nobody can guess, for example what `openssl rand -hex 16` prints",
                    ));
                }
                Ok(blake3::derive_key("agentiso 2026 session of a client by its secret", secret.as_bytes()))
            }
            Self::Name(name) => Ok(blake3::derive_key(
                "agentiso 2026 session of a client by its name",
                plain(name).as_bytes(),
            )),
        }
    }
}

/// A new random token.
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

/// A client's name without control characters, at most [`MAX_CLIENT`] long.
fn plain(client: &str) -> String {
    let shown: String = client.chars().filter(|c| !c.is_control()).take(MAX_CLIENT).collect();
    if shown.trim().is_empty() { "unknown".to_owned() } else { cut(&shown, MAX_CLIENT).to_owned() }
}
