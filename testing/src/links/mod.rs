//! What every link into a workspace must do. Each check works in a directory of its own and leaves nothing running.

mod commands;
mod connections;
mod control;
mod files;
mod jobs;
mod search;
mod trees;
mod variables;
mod words;

use agentiso_core::ports::link::WorkspaceLink;

pub use words::shell;
pub(crate) use words::shell_words;

/// Runs a link through everything that is promised of all of them. `echo_server` is a command line that serves a port.
///
/// # Panics
///
/// If the link breaks a promise.
pub async fn conformance(link: &dyn WorkspaceLink, echo_server: fn(u16) -> String) {
    commands::all(link).await;
    control::all(link).await;
    variables::all(link).await;
    files::all(link).await;
    trees::all(link).await;
    search::all(link).await;
    jobs::all(link).await;
    connections::all(link, echo_server).await;
    words::until_idle(link).await;
}
