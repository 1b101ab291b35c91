//! The MCP server, with a backend that does nothing but remember what it was asked for.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod calls;
mod client;
mod docs;
mod fake;
mod fuzz;
mod guide;
mod http;
mod revisions;
