//! Actions over MCP, HTTP and a socket.
//!
//! Nothing here decides anything: a request becomes an action, a [`Backend`] performs it, and its outcome becomes the
//! response.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod backend;
mod bodies;
mod brief;
pub mod catalogue;
mod dispatch;
mod engine_backend;
pub mod http;
mod lenient;
pub mod mcp;
mod mistake;

pub use backend::{
    Answer, Backend, Call, ForCaller, OneShotWorkspace, RunningCommand, SessionPresence, SharedBackend,
    Watched,
};
pub use bodies::Bodies;
pub use engine_backend::EngineBackend;
pub use mistake::Mistake;
