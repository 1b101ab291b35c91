//! A host of workspaces in memory. Its records are real ones, and it writes them as the real host does.

mod archives;
mod changes;
mod controls;
mod forks;
mod images;
mod network;
mod port;
mod restore;
mod secrets;
mod snapshots;
mod state;
mod views;
mod workspaces;

pub use state::{FakeHost, HostCall};
