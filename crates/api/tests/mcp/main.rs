//! The MCP server with a backend that only records its calls.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "test helpers may panic")]

mod calls;
mod client;
mod docs;
mod fake;
mod fuzz;
mod guide;
mod http;
mod revisions;
