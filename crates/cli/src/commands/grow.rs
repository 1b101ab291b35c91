//! `agentiso grow`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_core::action::WorkspaceGrow;
use agentiso_runtime::Installation;

use super::Daemon;
use crate::args;
use crate::output::Output;

/// Gives a workspace a larger disk.
pub async fn grow(here: &Installation, flags: args::Grow, output: Output) -> Result<u8, Failure> {
    let wish = WorkspaceGrow { workspace_id: flags.workspace, disk_gb: flags.disk };
    let now = Daemon::reach(here, output).await?.change("Still growing the disk", &wish).await?;
    output.result(&now, |out| writeln!(out, "Grew the disk of {} to {} GiB.", now.name, wish.disk_gb))?;
    Ok(0)
}
