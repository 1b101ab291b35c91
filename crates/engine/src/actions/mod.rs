//! The implementation of each action, by domain.

mod commands;
mod files;
mod git;
mod images;
mod inbox;
mod network;
mod secrets;
mod sessions;
mod workspaces;

pub(crate) use commands::{code_and_signal, for_missing, variable_name};
pub(crate) use files::about_path;
pub(crate) use workspaces::{Lifetime, Make, refuse_suspend_snapshot};
