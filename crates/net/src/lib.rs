//! The network of workspaces.
//!
//! Every machine has a card whose other end is ours. The router is one process that parses the frames of all cards,
//! terminates their connections in user space, and opens new ones on the host where the workspace's policy allows it.
//! There is no shared segment, and nothing of the host's network is changed.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod backend;
pub mod bridge;
pub mod control;
mod counters;
pub mod dns;
pub mod egress;
pub mod frame;
pub mod host;
mod limits;
mod link;
mod log;
mod machine;
mod places;
pub mod plan;
mod router;
mod uplink;

pub use backend::Backend;
pub use counters::Counters;
pub use limits::Limits;
pub use log::{LogEntry, LogEvent};
pub use router::{MachineSpec, MachineStatus, Router, RouterError, Settings};
pub use uplink::{Connecting, HostUplink, Uplink};
