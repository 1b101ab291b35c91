//! Tests of vaults in real directories, also by several processes.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod checkpoints;
mod concurrency;
mod exchange;
mod files;
mod forks;
mod history;
mod kills;
mod laws;
mod merging;
mod runs;
mod search;
mod support;
mod upkeep;
mod vaults;
