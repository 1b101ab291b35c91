//! Idempotency keys.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{Failure, SessionId};

/// The longest key that is kept, in characters.
pub const MAX_KEY: usize = 255;

/// The result of claiming a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// The key is new: the request is to be performed.
    New,
    /// The same request is in progress.
    InProgress,
    /// The same request has ended with this outcome.
    Done(Value),
    /// The key was used for another request.
    Mismatch,
}

/// Idempotency keys of sessions.
#[async_trait]
pub trait KeyRecords: Send + Sync {
    /// Claims a key of a session for the request that has a hash.
    async fn claim_key(&self, session: SessionId, key: &str, hash: &[u8; 32]) -> Result<Claim, Failure>;

    /// Stores the outcome of the request that holds a key.
    async fn settle_key(&self, session: SessionId, key: &str, outcome: &Value) -> Result<(), Failure>;

    /// Frees a key, if it is claimed.
    async fn drop_key(&self, session: SessionId, key: &str) -> Result<(), Failure>;

    /// Frees every key whose request never ended, because the daemon that ran it died.
    async fn drop_unsettled_keys(&self) -> Result<(), Failure>;

    /// Frees the keys that were claimed before a moment.
    async fn prune_keys(&self, older_than: Timestamp) -> Result<(), Failure>;
}
