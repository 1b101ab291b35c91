//! What the network of workspaces costs, and how fast it is.

mod all;
mod dns;
mod process;
mod starts;
mod throughput;

pub(super) use all::measure;
