//! Actions over MCP, HTTP and a socket.
//!
//! Nothing here decides anything: a request becomes an action, a [`Backend`] carries it out, and its outcome becomes
//! an answer.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod backend;
mod bodies;
mod brief;
pub mod catalogue;
mod dispatch;
pub mod http;
mod lenient;
pub mod mcp;
mod mistake;

pub use backend::{Answer, Backend, Call};
pub use bodies::Bodies;
pub use dispatch::Direct;
pub use mistake::Mistake;
