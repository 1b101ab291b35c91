//! Each action, carried out.

mod adopt;
mod archive;
mod create;
mod exec;
mod files;
mod fork;
mod git;
mod git_checks;
mod git_state;
mod grant;
mod handover;
mod hints;
mod images;
mod jobs;
mod lifecycle;
mod network;
mod read;
mod search;

mod settings;
mod snapshots;
mod status;
mod suspend;

pub(crate) use create::{Lifetime, Make};
pub(crate) use exec::{code_and_signal, variable_name};
pub(crate) use files::about_path;
pub(crate) use suspend::{is_last_moment, refuse_last_moment};
