//! The Model Context Protocol: actions as tools; files, logs and diffs as resources; the guide's patterns as prompts.
//!
//! Tools are data: `table` lists the tools and the actions they map to. Schemas, documentation and argument parsing are
//! derived from it.

mod arguments;
mod early;
mod fits;
mod http;
mod instructions;
mod patience;
mod progress;
mod prompts;
pub mod reference;
mod resources;
mod results;
mod schema;
mod selection;
mod server;
mod shown;
mod stdio;
mod table;
mod tasks;
mod tools;

pub use agentiso_core::action::ToolSet;
pub use http::{Allowed, Endpoint};
pub(crate) use http::{Message, session_of};
pub use selection::Selection;
pub use server::Server;
pub use stdio::{ServeError, serve_stdio, serve_streams};
