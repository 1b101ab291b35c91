//! Idempotency keys: a request with a key is carried out at most once, and repeating it returns the first outcome.
//!
//! ```text
//!  claim ──► work ──► succeeded: the outcome is stored with the key
//!                └──► failed or interrupted: the key is released, so that the request can be repeated
//! ```
//!
//! If the database rejects the last step, the result of the work is still the answer. The step is kept in memory and
//! done when the key is used again, by upkeep or at shutdown, whichever comes first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentiso_core::ports::records::Claim;
use agentiso_core::{Code, Failure, Secret, SessionId, in_clear};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Engine;
use crate::act::Context;
use crate::live_state::locked;

/// How long idempotency keys are kept.
pub(crate) const KEYS_KEPT: Duration = Duration::from_secs(24 * 3600);

type KeyOfSession = (SessionId, String);

/// The last step of a request with a key.
#[derive(Clone, Debug)]
enum Ending {
    /// Store the outcome.
    Settle(Value),
    /// Release the key.
    Release,
}

/// Endings that could not be written to the database yet, with the time of each request's end.
#[derive(Clone, Default)]
pub(crate) struct PendingKeys(Arc<Mutex<HashMap<KeyOfSession, (Ending, Timestamp)>>>);

impl PendingKeys {
    fn add(&self, key: KeyOfSession, ending: Ending, at: Timestamp) {
        locked(&self.0).insert(key, (ending, at));
    }

    /// Takes an ending out, so that only one caller performs it.
    fn take(&self, key: &KeyOfSession) -> Option<(Ending, Timestamp)> {
        locked(&self.0).remove(key)
    }
}

/// A claimed key. If the work is dropped before it ends, the key is released later.
struct Claimed<'a> {
    engine: &'a Engine,
    key: Option<KeyOfSession>,
}

impl Claimed<'_> {
    /// Performs the ending, or keeps it for later.
    async fn end(mut self, ending: Ending) {
        if let Some(key) = self.key.take() {
            self.engine.end_key(key, ending, self.engine.clock.wall()).await;
        }
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.engine.pending_keys.add(key, Ending::Release, self.engine.clock.wall());
        }
    }
}

impl Engine {
    async fn end_key(&self, key: KeyOfSession, ending: Ending, at: Timestamp) {
        let done = match &ending {
            Ending::Settle(outcome) => self.records.settle_key(key.0, &key.1, outcome).await,
            Ending::Release => self.records.drop_key(key.0, &key.1).await,
        };
        if let Err(failure) = done {
            tracing::warn!(%failure, "could not update an idempotency key; trying again later");
            self.pending_keys.add(key, ending, at);
        }
    }

    /// Performs the endings that failed before. Those of keys that have expired are forgotten.
    pub(crate) async fn end_pending_keys(&self) {
        let keys: Vec<KeyOfSession> = locked(&self.pending_keys.0).keys().cloned().collect();
        let oldest = self.clock.wall() - KEYS_KEPT;
        for key in keys {
            if let Some((ending, at)) = self.pending_keys.take(&key)
                && at > oldest
            {
                self.end_key(key, ending, at).await;
            }
        }
    }
}

impl Context {
    /// Runs work once per idempotency key: a repeated call returns the first outcome.
    pub(crate) async fn once<R: Serialize, O: Serialize + DeserializeOwned>(
        &self,
        key: Option<&Secret<String>>,
        request: &R,
        work: impl Future<Output = Result<O, Failure>> + Send,
    ) -> Result<O, Failure> {
        let (Some(key), Some(session)) = (key.map(Secret::expose), self.caller.session) else {
            return work.await;
        };
        if key.is_empty() {
            return Err(Failure::new(Code::InvalidArgument, "idempotency_key is empty")
                .with_remedy("leave it out, or give a key of your own"));
        }
        let hash = *blake3::hash(&in_clear(|| serde_json::to_vec(request)).map_err(internal)?).as_bytes();
        let key = (session, key.clone());
        if let Some(outcome) = self.claim(&key, &hash).await? {
            self.require_there(&outcome).await?;
            return serde_json::from_value(outcome).map_err(internal);
        }
        let claimed = Claimed { engine: &self.engine, key: Some(key) };
        let result = work.await;
        let ending = match &result {
            Ok(outcome) => Ending::Settle(serde_json::to_value(outcome).map_err(internal)?),
            Err(_) => Ending::Release,
        };
        claimed.end(ending).await;
        result
    }

    /// Claims a key. If its request has ended already, returns the outcome.
    async fn claim(&self, key: &KeyOfSession, hash: &[u8; 32]) -> Result<Option<Value>, Failure> {
        let records = &self.engine.records;
        let mut claim = records.claim_key(key.0, &key.1, hash).await?;
        if claim == Claim::InProgress
            && let Some((ending, at)) = self.engine.pending_keys.take(key)
        {
            self.engine.end_key(key.clone(), ending.clone(), at).await;
            claim = match ending {
                Ending::Settle(outcome) => Claim::Done(outcome),
                Ending::Release => records.claim_key(key.0, &key.1, hash).await?,
            };
        }
        match claim {
            Claim::New => Ok(None),
            Claim::Done(outcome) => Ok(Some(outcome)),
            Claim::InProgress => Err(Failure::new(
                Code::IdempotencyConflict,
                "a request with this idempotency_key is still running",
            )
            .with_remedy("wait for its answer, or try again in a moment")),
            Claim::Mismatch => Err(Failure::new(
                Code::IdempotencyConflict,
                "this idempotency_key was used for another request",
            )
            .with_remedy("use a new key for a new request")),
        }
    }

    /// Refuses to repeat an outcome whose workspace no longer exists.
    async fn require_there(&self, outcome: &Value) -> Result<(), Failure> {
        let Some(id) = outcome["workspace_id"].as_str() else { return Ok(()) };
        let workspaces = self.engine.host.list().await?;
        if workspaces.iter().any(|workspace| workspace.id.to_string() == id) {
            return Ok(());
        }
        let name = outcome["name"].as_str().unwrap_or_default();
        let message =
            format!("the workspace {name:?} ({id}) that this idempotency_key created no longer exists");
        Err(Failure::new(Code::WorkspaceNotFound, message).with_remedy("use a new key to create another"))
    }
}

fn internal(error: serde_json::Error) -> Failure {
    Failure::new(Code::Internal, error.to_string())
}
