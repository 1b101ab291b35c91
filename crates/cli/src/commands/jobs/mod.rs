//! `agentiso jobs`: commands that are left running in a workspace.

mod follow;
mod kill;
mod list;
mod shell_line;
mod start;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;

use super::Daemon;
use crate::args::{JobVerb, OneJob};
use crate::output::Output;

/// Starts, lists, watches and ends the jobs of a workspace.
pub async fn jobs(here: &Paths, verb: JobVerb, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    match verb {
        JobVerb::Ls { workspace, only } => list::list(&daemon, workspace, only, output).await,
        JobVerb::Start(flags) => start::start(&daemon, flags, output).await,
        JobVerb::Logs { job: OneJob { workspace, id }, follow } => {
            follow::logs(&daemon, workspace, id, follow, output).await
        }
        JobVerb::Kill { job: OneJob { workspace, id }, signal } => {
            kill::kill(&daemon, workspace, id, &signal, output).await
        }
        JobVerb::Wait { job: OneJob { workspace, id } } => follow::wait(&daemon, workspace, id, output).await,
    }
}
