//! What the scripts do to a host, with programs that only say what they were asked for, and with packages of our own.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod apt;
mod package;
mod quickstart;
mod tree;
