//! The network of workspaces: the router process, and which machines are attached to it.
//!
//! ```text
//!  daemon ── control socket ──► router process ◄── one socket per card ── QEMU
//!    │  launches it when a workspace first needs it; finds it again after a restart; replaces it when it has died
//!    └─ monitor of each QEMU: the other end of its card
//! ```
//!
//! The records decide: what the router has is compared with them, and repaired.

mod launch;
mod router;
mod wired;

pub use launch::{RouterKind, RouterLauncher, RouterProcess, is_router, run_router_process};
pub(crate) use router::Net;
pub(crate) use wired::Wired;
