//! Workspaces, snapshots and forks on real machines, through the library.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod chains;
mod common;
mod compare;
mod fork_correctness;
mod in_flight;
mod pool;
mod same_instant;
