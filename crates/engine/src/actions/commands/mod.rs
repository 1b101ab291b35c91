//! Commands and background jobs.

mod exec;
mod handover;
mod hints;
mod jobs;

pub(super) use exec::{bounded, run};
pub(crate) use exec::{code_and_signal, variable_name};
pub(crate) use hints::for_missing;
