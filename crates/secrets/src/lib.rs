//! Secrets of the operator: stored encrypted, and granted to workspaces by name.
//!
//! ```text
//!  secrets/key     32 random bytes, readable by the owner alone
//!  secrets/sealed  everything else, encrypted and authenticated with the key
//! ```
//!
//! The database has none of it. A copy of `sealed` without `key` is worth nothing; anyone who can read both as
//! this user can read the secrets, as with every program that uses secrets without asking for a password.

mod contents;
mod error;
mod key;
mod seal;
mod vault;

pub use contents::{Authority, StoredSecret};
pub use error::VaultError;
pub use vault::Vault;
