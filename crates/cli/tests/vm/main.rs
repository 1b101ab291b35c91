//! The command line on real machines. One binary, so that what the tests share is compiled once and used.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on ends here")]

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
mod place;
mod recover;
mod run;
mod settings;
mod snapshots;
mod surface;
mod travel;
mod verbs;
mod workspaces;
