//! Workspaces: machines and disks that outlive the process that created them.
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
//! Every change is an *undertaking*: an intent is recorded before anything is created, and one transaction completes it.
//! If its process dies, the next process that opens the workspaces completes or undoes it.
//!
//! Nothing is deleted because something could not be read: a lookup that fails is an error, and only a lookup that
//! succeeds and finds nothing means that a disk or a memory image is unreferenced.

mod abandoned;
mod adopt;
mod attach;
mod base;
mod chains;
mod commit;
mod compare;
mod connections;
mod create;
mod export;
#[cfg(test)]
mod faults;
mod files;
mod fork;
mod fork_running;
mod fork_snapshot;
mod freeze;
mod grow;
mod intent;
mod lifecycle;
mod live_chain;
mod lock;
mod logs;
mod lost;
mod machine;
mod maintain;
mod memory_limit;
mod network;
mod network_upkeep;
mod open;
mod ownership;
mod pool;
pub(crate) mod pool_budget;
mod pool_upkeep;
mod record;
mod recover;
mod remove;
mod rename;
mod restore;
mod shapes;
mod snapshot;
mod strays;
mod tidy;
mod turns;
mod undertaking;
#[cfg(test)]
mod unreadable;
mod views;

pub use adopt::{Recovered, Recovery};
pub use agentiso_core::ports::host::{
    CompareRequest, CreateRequest, Exported, ForkOutcome, ForkRequest, ForkSource, Forked, ForkedFrom, Logs,
    Point, PoolState, RemoveRequest, Restored, SnapshotRequest, SnapshotView, Snapshotted, WorkspaceView,
};
pub use attach::Attached;
pub use maintain::Maintained;
pub use open::Workspaces;
pub use pool::PoolShape;
