//! Starting machines: disk, clone, identity.
//!
//! ```text
//!   requested ─► directory ─► disk ─► clone of a warm template ────────┐
//!                              │        └ fails: clone of the base, mount
//!                              │             └ fails: cold boot, mount │
//!                              ├ used before: clone of the base, mount │
//!                              └ --cold: cold boot, mount              ▼
//!                                                   identity set ─► running
//! ```
//!
//! After a failure everything made so far is removed by the values that own it: the process by its `Machine`, disk and
//! sockets by the owner of the [`PendingStart`].

mod clock;
mod clone;
mod identity;
mod ingredients;
mod oneshot;
mod pending;

pub(crate) use clock::{now_ns, set_again};
pub(crate) use identity::{Identity, OnWake};
pub(crate) use ingredients::{Ingredients, image_identity};
pub use oneshot::BareRestore;
pub use oneshot::{Running, StartRequest, Tier};
pub(crate) use pending::{PendingStart, StartDisk};
