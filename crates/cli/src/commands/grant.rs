//! `agentiso grant`.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::WorkspaceGrant;

use super::Daemon;
use crate::args;
use crate::output::Output;

/// Gives a workspace to a session.
pub async fn grant(here: &Paths, flags: args::Grant, output: Output) -> Result<u8, Failure> {
    let request = WorkspaceGrant { workspace_id: flags.workspace, session_id: flags.session };
    let given = Daemon::reach(here, output).await?.change("Still changing the owner", &request).await?;
    output.result(&given, |out| {
        writeln!(out, "{} now belongs to {} ({}).", given.name, given.client, given.session_id)
    })?;
    Ok(0)
}
