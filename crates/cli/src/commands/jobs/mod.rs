//! `agentiso jobs`: commands that are left running in a workspace.

mod follow;
mod kill;
mod list;
mod shell_line;
mod start;

use agentiso_core::Failure;
use agentiso_runtime::Installation;

use super::Daemon;
use crate::args::{JobVerb, Jobs};
use crate::output::Output;

/// Does what is asked with the jobs of a workspace.
pub async fn jobs(here: &Installation, flags: Jobs, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    let workspace = flags.workspace;
    match flags.verb {
        None => list::list(&daemon, workspace, output).await,
        Some(JobVerb::Start(flags)) => start::start(&daemon, workspace, flags, output).await,
        Some(JobVerb::Logs { id, follow }) => follow::logs(&daemon, workspace, id, follow, output).await,
        Some(JobVerb::Kill { id, signal }) => kill::kill(&daemon, workspace, id, &signal, output).await,
        Some(JobVerb::Wait { id }) => follow::wait(&daemon, workspace, id, output).await,
    }
}
