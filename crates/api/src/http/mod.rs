//! The daemon's HTTP interface: REST under `/v1`, events, streams, metrics.

mod answer;
mod auth;
mod conversation;
mod events;
mod exec;
mod mcp;
mod metrics;
mod openapi;
mod progress;
mod rejections;
mod router;
mod routes;
mod session;
mod words;

pub use answer::status_of;
pub use auth::{Admission, Door, Token};
pub use mcp::McpDoor;
pub use metrics::metrics_router;
pub use openapi::openapi;
pub use router::{State, router};
