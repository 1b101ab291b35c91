//! The agent and the link on real machines: what unit tests can only pretend, a kernel has to agree to.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

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
