//! Starting machines: disk, clone, identity.
//!
//! ```text
//!   wanted ─► berth ─► disk ─► clone of a warm template ──────────┐
//!                        │        └ cannot be made: clone of the base, mount
//!                        │             └ cannot be made: cold boot, mount
//!                        ├ used before: clone of the base, mount  │
//!                        └ --cold: cold boot, mount               ▼
//!                                              identity set ─► running
//! ```
//!
//! Whatever fails on the way, everything made so far goes with the values that own it: the process with its
//! `Machine`, disk and sockets with the owner of the berth.

mod berth;
mod clock;
mod clone;
mod identity;
mod ingredients;
mod oneshot;

pub(crate) use berth::{Berth, BerthDisk};
pub(crate) use clock::{now_ns, set_again};
pub(crate) use identity::{Identity, OnWake};
pub(crate) use ingredients::{Ingredients, image_identity};
pub use oneshot::BareRestore;
pub use oneshot::{Running, StartRequest, Tier};
