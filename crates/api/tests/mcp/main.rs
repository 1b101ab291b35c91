//! The MCP server, with a backend that does nothing but remember what it was asked for.

mod calls;
mod client;
mod docs;
mod fake;
mod fuzz;
mod guide;
mod http;
mod revisions;
