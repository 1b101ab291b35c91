//! `agentiso grow`.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::WorkspaceGrow;

use super::Daemon;
use crate::args;
use crate::output::Output;

/// Gives a workspace a larger disk.
pub async fn grow(here: &Paths, flags: args::Grow, output: Output) -> Result<u8, Failure> {
    let request = WorkspaceGrow { workspace_id: flags.workspace, disk_gb: flags.disk };
    let now = Daemon::reach(here, output).await?.change("Still growing the disk", &request).await?;
    output.result(&now, |out| writeln!(out, "Grew the disk of {} to {} GiB.", now.name, request.disk_gb))?;
    Ok(0)
}
