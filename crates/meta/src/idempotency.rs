//! Idempotency keys: a request with a key is carried out at most once.
//!
//! ```text
//!  claimed ──► settled: the same request gets the recorded outcome
//!     │
//!     └──────► dropped: the request failed without changing anything, so it may be retried
//! ```

use agentiso_core::SessionId;
use jiff::Timestamp;
use serde_json::Value;

use crate::stored::{Stored, get_if_any};
use crate::{Claim, MAX_KEY, MetaError, Tx};

impl Tx<'_> {
    /// Claims a session's key for the request with this hash.
    pub fn claim_key(&self, session: SessionId, key: &str, hash: &[u8; 32]) -> Result<Claim, MetaError> {
        MetaError::require_short("idempotency key", key, MAX_KEY)?;
        let sql = "SELECT request_hash, outcome FROM idempotency WHERE session = ?1 AND key = ?2";
        let known = self.one(sql, (Stored(session), key), |row| {
            Ok((row.get::<_, [u8; 32]>("request_hash")?, get_if_any(row, "outcome")?))
        })?;
        match known {
            Some((claimed, _)) if claimed != *hash => Ok(Claim::Mismatch),
            Some((_, Some(outcome))) => Ok(Claim::Done(outcome)),
            Some((_, None)) => Ok(Claim::InProgress),
            None => {
                self.session(session)?;
                self.execute(
                    "INSERT INTO idempotency (session, key, request_hash, created) VALUES (?1, ?2, ?3, ?4)",
                    (Stored(session), key, hash, Stored(Timestamp::now())),
                )?;
                Ok(Claim::New)
            }
        }
    }

    /// Records the outcome of a request. Best called in the transaction that makes the change.
    pub fn settle_key(&self, session: SessionId, key: &str, outcome: &Value) -> Result<(), MetaError> {
        let sql = "UPDATE idempotency SET outcome = ?3 WHERE session = ?1 AND key = ?2";
        self.change_one("idempotency key", key, sql, (Stored(session), key, Stored(outcome)))
    }

    /// Releases a claimed key.
    pub fn drop_key(&self, session: SessionId, key: &str) -> Result<(), MetaError> {
        let sql = "DELETE FROM idempotency WHERE session = ?1 AND key = ?2";
        self.execute(sql, (Stored(session), key))?;
        Ok(())
    }

    /// Releases all keys whose requests never finished because their process died. Returns their number.
    pub fn drop_unsettled_keys(&self) -> Result<usize, MetaError> {
        Ok(self.execute("DELETE FROM idempotency WHERE outcome IS NULL", [])?)
    }

    /// Removes the keys claimed before a point in time. Returns their number.
    pub fn prune_keys(&self, older_than: Timestamp) -> Result<usize, MetaError> {
        Ok(self.execute("DELETE FROM idempotency WHERE created < ?1", [Stored(older_than)])?)
    }
}
