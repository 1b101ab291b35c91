//! The real agent, run as an ordinary process, and all that a host may ask of it there.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

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
