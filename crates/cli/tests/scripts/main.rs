//! What the scripts do to a host, with programs that only log their arguments, and with real packages.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

mod apt;
mod package;
mod quickstart;
mod tree;
