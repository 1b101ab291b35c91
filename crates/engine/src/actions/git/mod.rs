//! Git repositories in a workspace.

mod checks;
mod commands;
mod state;
