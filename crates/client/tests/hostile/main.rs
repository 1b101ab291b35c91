//! The client against servers that break the protocol: each time an error with a code, bounded memory, and no hang.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod events;
mod http;
mod server;
mod web_socket;
