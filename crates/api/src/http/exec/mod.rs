//! Commands over a WebSocket: input as it is typed, output as it is printed.
//!
//! ```text
//!  upgraded ─► first message ─► (run: workspace created) ─► started ─► exits ─► (run: workspace destroyed) ─► last word
//!                   │                     │                    │
//!                   └── client gone ──────┴────────────────────┴──► command ended, workspace of a run destroyed
//! ```
//!
//! The messages are in [`agentiso_core::wire`].

mod conversation;
mod input;
mod start;
mod stream;

pub(super) use stream::{exec, run};
