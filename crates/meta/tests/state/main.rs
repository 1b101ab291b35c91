//! What the state promises: everything or nothing, for everyone, for good.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod builders;
mod disks;
mod formats;
mod invariants;
mod lookups;
mod memories;
mod operations;
mod pool;
mod processes;
mod snapshots;
mod workspaces;
