//! Workspaces, snapshots and forks on real machines, through the library.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod chains;
mod common;
mod compare;
mod fork_correctness;
mod in_flight;
mod pool;
mod same_instant;
