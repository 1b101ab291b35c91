//! The agent and the guest link on real machines, with a real kernel.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod bare;
mod exec;
mod exec_crowds;
mod exec_ending;
mod files;
mod files_atomic;
mod hold;
mod hooks;
mod identity;
mod machine;
mod power;
mod root;
mod sessions;
mod trees;
