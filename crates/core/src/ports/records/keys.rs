//! Idempotency keys.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{Failure, SessionId};

/// The longest key that is kept, in characters.
pub const MAX_KEY: usize = 255;

/// What became of the attempt to claim a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// Nobody had it: the request is to be carried out.
    New,
    /// The same request has it and is at work.
    InProgress,
    /// The same request had it and this came of it.
    Done(Value),
    /// Another request has it.
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
