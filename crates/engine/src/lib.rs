//! The one door to all workspaces.
//!
//! ```text
//!  a client's action ──► session ──► rate ──► workspace ──► owner ──► quota ──► done ──► timeline
//! ```
//!
//! Every client's every action comes through [`Engine::act`]. What changes a workspace as a whole waits its turn at the
//! workspace and is finished whatever becomes of its client; what only works inside goes on beside others and ends
//! with its client.

mod access;
mod act;
mod actions;
mod admission;
mod adoption;
mod caller;
mod clock;
mod command;
mod engine;
mod env;
mod events;
mod forwards;
mod held;
mod interactive;
mod launch;
mod long_command;
mod metrics;
mod not_started;
mod one_shot;
mod output;
mod quota;
mod rates;
mod redact;
mod rooms;
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
pub use engine::{Engine, Shutdown};
pub use events::Event;
pub use interactive::Interactive;
pub use metrics::Metrics;
pub use not_started::NotStarted;
pub use one_shot::OneShot;
pub use sessions::{Identity, NewSession, Presence, new_token};
