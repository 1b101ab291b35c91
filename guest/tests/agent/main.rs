//! The real agent, run as an ordinary process, and all that a host may ask of it there.

mod exec;
mod exec_ending;
mod files;
mod flow;
mod host;
mod session;
mod trees;
