//! How a daemon controls the router, which is a process of its own and outlives it.
//!
//! ```text
//!  daemon ── connects ──► Hello ──► requests, one answer each ──► disconnects
//!                          │                  └─ subscribe: entries of the log until either side ends
//!                          └─ no common version: error, and the router goes on as it is
//! ```
//!
//! When the daemon is away, every machine keeps its last policy. A new router has no machines and passes nothing until
//! they are attached again. A router without machines ends after a minute. Messages are JSON, each after its length; `message.rs` has the types and their frozen form.

mod client;
mod descriptor;
mod message;
mod server;
mod socket;
mod transport;

pub use client::{ControlError, RouterClient, Subscription};
pub use message::{PolicyChange, Request, Response, VERSION};
pub use server::run_router;
pub use socket::ControlSocket;
