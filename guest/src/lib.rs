//! The guest agent.
//!
//! It is PID 1 of the initramfs and stays PID 1: it loads drivers, serves the host over one byte stream, mounts the
//! workspace's disk and changes root into it on request, and runs commands. It uses threads and blocking calls, no
//! async runtime: the code that must be faulted in or translated after a restore determines how soon the agent
//! responds.
//!
//! ```text
//! main thread    reaps orphans                                     reaper
//! link thread    bytes -> frames; pings, credit, configure         link, session
//! workers        one request each, then idle again                 pool, requests, exec, files, trees, find, grep
//!                one job or connection each, until it ends         job, connect
//! ```

mod agent;
mod atomic;
mod bell;
mod boot;
mod boot_id;
mod card;
mod clock;
mod command;
mod command_io;
mod configure;
mod connect;
mod controls;
mod detach;
mod environment;
mod error;
mod exec;
mod files;
mod filesystem;
mod find;
mod frames;
mod glob;
mod grep;
mod grep_file;
mod groups;
mod hold;
mod hooks;
mod identity;
mod inherited;
mod job;
mod jobs;
mod kill;
mod link;
mod list;
mod log;
mod network;
mod paths;
mod ports;
mod power;
mod reaper;
mod remove;
mod requests;
mod resolver;
mod ring;
mod root;
mod running;
mod serve;
mod session;
mod spawn;
mod status;
mod stdin;
mod stdio;
mod stream;
mod supervise;
mod sync;
mod tree_metadata;
mod tree_receive;
mod tree_send;
mod tree_target;
mod vsock;
mod wake;
mod walk;
mod workers;

pub use boot::run_as_init;
pub use serve::serve_fd;
