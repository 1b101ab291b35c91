//! Workspaces: machines and disks that stay when the command that made them has ended.
//!
//! ```text
//!            create                 stop, machine ended
//!   nothing ────────► running ─────────────────────────► stopped
//!      ▲               │ ▲ │  ▲                            │ │
//!      │ rm            │ │ └──┘ snapshot, restore, fork    │ │
//!      └───────────────┘ └──────────── start ──────────────┘ │
//!      └─────────────────────────── rm ──────────────────────┘
//! ```
//!
//! Every change is an *undertaking*: before anything is touched the database says what will be made, afterwards one
//! transaction says that it is done. Whoever finds an undertaking whose owner died finishes or undoes it.

mod attach;
mod base;
mod capture;
mod create;
mod fork;
mod fork_running;
mod fork_snapshot;
mod intent;
mod lifecycle;
mod lock;
mod machine;
mod open;
mod pool;
mod recover;
mod remove;
mod restore;
mod snapshot;
mod tidy;
mod undertaking;
mod views;

pub use attach::Attached;
pub use create::CreateRequest;
pub use fork::{ForkOutcome, ForkRequest, ForkSource, Forked};
pub use open::Workspaces;
pub use pool::PoolShape;
pub use remove::RemoveRequest;
pub use restore::Restored;
pub use snapshot::{SnapshotRequest, Snapshotted};
pub use views::{SnapshotView, WorkspaceView};
