//! A typed client of the agentiso daemon.
//!
//! Links nothing of the daemon but the types in `agentiso-core` that both sides agree on. Whatever the daemon answers is
//! checked for size and form before it is used: a daemon of another version, or one that was killed while it answered,
//! leads to a [`Failure`](agentiso_core::Failure) and nothing else.
//!
//! ```no_run
//! use agentiso_client::Client;
//! use agentiso_core::action::WorkspaceList;
//!
//! # async fn example() -> Result<(), agentiso_core::Failure> {
//! let client = Client::new("/run/user/1000/agentiso/daemon.sock".as_ref(), "example/1.0");
//! for workspace in client.act(&WorkspaceList::default()).await?.workspaces {
//!     // ...
//! #   drop(workspace);
//! }
//! # Ok(())
//! # }
//! ```
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod client;
mod error;
mod events;
mod exec;
mod http;
mod sse;

pub use client::Client;
pub use events::{JobEvent, Watched};
pub use exec::{ExecEvent, ExecInput, ExecOutput, ExecStream};
