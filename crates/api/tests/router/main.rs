//! The whole HTTP interface over a backend that only pretends.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod auth;
mod commands;
mod errors;
mod fake;
mod requests;
mod runs;
mod server;
mod sessions;
mod streams;
