//! `agentiso rename`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_core::action::WorkspaceRename;
use agentiso_runtime::Installation;

use super::Daemon;
use crate::args;
use crate::output::Output;

/// Gives a workspace another name.
pub async fn rename(here: &Installation, flags: args::Rename, output: Output) -> Result<u8, Failure> {
    let wish = WorkspaceRename { workspace_id: flags.workspace, new_name: flags.name };
    let now = Daemon::reach(here, output).await?.change("Still renaming", &wish).await?;
    output.result(&now, |out| writeln!(out, "Renamed {} to {}.", wish.workspace_id, now.name))?;
    Ok(0)
}
