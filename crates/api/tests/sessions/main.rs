//! Ownership and permissions, with an engine whose workspaces are rows without machines.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod clients;
mod ends;
mod forms;
mod grants;
mod house;
mod http;
mod images;
mod kinds;
mod ownership;
mod secrets;
mod subjects;
mod variables;
