//! Real sandboxes. Tests run as root, and most of them as an ordinary user too.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

#[macro_use]
mod place;

mod escapes;
mod files;
mod kernel;
mod lifetime;
mod limits;
mod network;
mod plain;
mod renames;
mod report;
mod session;
mod terminal;
mod tools;
