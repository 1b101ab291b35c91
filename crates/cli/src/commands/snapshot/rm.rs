//! `agentiso snapshot rm`.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::SnapshotDelete;

use crate::commands::Daemon;
use crate::output::Output;

/// Removes a snapshot.
pub async fn rm(here: &Paths, workspace: String, name: String, output: Output) -> Result<u8, Failure> {
    let request = SnapshotDelete { workspace_id: workspace, snapshot_name: name };
    let gone = Daemon::reach(here, output).await?.change("Still removing the snapshot", &request).await?;
    output.result(&gone, |out| writeln!(out, "Removed {}.", gone.snapshot_name))?;
    Ok(0)
}
