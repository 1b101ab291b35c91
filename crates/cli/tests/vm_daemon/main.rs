//! The daemon's interfaces on real machines: MCP over standard input and output, and HTTP over the socket. One binary,
//! so that shared helpers are compiled once.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "test helpers may panic")]

mod echo;
mod http;
mod mcp;
mod mcp_http;
mod place;
mod refusal;
mod schema;
mod sleeper;

mod activation;
mod commands;
mod endings;
mod files;
mod forks;
mod forwards;
mod fuzz;
mod git;
mod guide;
mod hostile;
mod images;
mod mcp_over_http;
mod mcp_tasks;
mod owners;
mod pool;
mod reconnect;
mod rest;
mod secrets;
mod sessions;
mod silent;
mod survive;
mod web_socket;
