//! Who may use what, with an engine whose workspaces are rows without machines.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

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
