//! The entry point for every action of every client.
//!
//! ```text
//!  action ──► rate limit ──► subjects ──► decision ──► timeline entry ──► carried out ──► entry completed ──► outcome
//! ```
//!
//! Every action goes through [`Engine::act`]. An action that changes a workspace as a whole takes the workspace's lock and
//! runs to completion even if its client disconnects. An action that works inside a workspace runs concurrently with
//! others and is cancelled when its client disconnects. The engine reaches hosts, machines, records and the clock only
//! through the ports in `agentiso_core::ports`.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod access;
mod act;
mod actions;
mod admission;
mod adoption;
mod approvals;
mod caller;
mod command;
mod engine;
mod env;
mod events;
mod forwards;
mod idempotency;
mod interactive;
mod launch;
mod live_state;
mod long_command;
mod metrics;
mod network;
mod not_started;
mod one_shot;
mod output;
mod quota;
mod rates;
mod record;
mod redact;
mod retry;
mod secret_rules;
mod secrets;
#[cfg(test)]
mod secrets_corpus;
mod sessions;
mod spill;
mod stats;
mod timeline;
mod transfer;
mod upkeep;
mod views;
mod watch;

pub use access::{Access, Perform};
pub use act::Context;
pub use caller::Caller;
pub use engine::{Engine, Ports, Shutdown};
pub use events::{Delivered, Event, Subscription};
pub use interactive::Interactive;
pub use metrics::Metrics;
pub use not_started::NotStarted;
pub use one_shot::OneShot;
pub use sessions::{Identity, NewSession, Presence, new_token};
