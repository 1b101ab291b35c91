//! The CLI on real machines. One binary, so that shared helpers are compiled once.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "test helpers may panic")]

mod bench;
mod common;
mod examples;
mod faults;
mod files;
mod forks;
mod full_disk;
mod grow;
mod image;
mod isolation;
mod jobs;
mod kernel;
mod look;
mod modes;
mod network;
mod place;
mod recover;
mod run;
mod settings;
mod snapshots;
mod surface;
mod travel;
mod verbs;
mod workspaces;
