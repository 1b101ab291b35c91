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

mod abandoned;
mod adopt;
mod attach;
mod base;
mod capture;
mod chains;
mod commit;
mod compare;
mod create;
mod export;
#[cfg(test)]
mod faults;
mod fork;
mod fork_running;
mod fork_snapshot;
mod grow;
mod held;
mod intent;
mod lifecycle;
mod live_chain;
mod lock;
mod logs;
mod lost;
mod machine;
mod maintain;
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
mod tidy;
mod turns;
mod undertaking;
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
