//! What workspaces may do: rules without a clock, a file or a network.

pub mod command;
pub mod egress;
