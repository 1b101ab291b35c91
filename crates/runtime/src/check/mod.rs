//! `agentiso check`: what machines need on this host, whether it is there, and what to do if it is not.

mod data;
mod host;
mod network;
mod report;
mod run;

pub use report::{Finding, Report, Standing};
pub use run::check;
