//! The network of workspaces.
//!
//! Every machine has a card whose other end is ours. The router is one process that parses the frames of all cards,
//! terminates their connections in user space, and opens new ones on the host where the workspace's policy allows it.
//! There is no shared segment, and nothing of the host's network is changed.

pub mod frame;
pub mod host;
pub mod plan;
pub mod policy;
