//! Tests of the state database: atomicity, consistency, durability, concurrency.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod approvals;
mod builders;
mod concurrency;
mod disks;
mod formats;
mod forwards;
mod idempotency;
mod invariants;
mod lookups;
mod memories;
mod network;
mod one_shots;
mod operations;
mod pool;
mod processes;
mod sessions;
mod settings;
mod snapshots;
mod timeline;
mod usage;
mod variables;
mod workspaces;
