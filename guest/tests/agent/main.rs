//! Tests of the real agent, run as an ordinary process.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

mod connections;
mod detach;
mod environment;
mod exec;
mod exec_ending;
mod files;
mod flow;
mod host;
mod input;
mod jobs;
mod search;
mod session;
mod trees;
