//! `agentiso snapshot rm`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::Workspaces;
use serde_json::json;

use crate::commands::{Held, waiting};
use crate::output::Output;

/// Removes a snapshot.
pub async fn rm(
    installation: &Installation,
    workspace: &str,
    name: &str,
    output: Output,
) -> Result<u8, Failure> {
    let held = Held::new()?;
    waiting(output, "Still removing the snapshot", async |_| {
        Workspaces::open(installation).await?.remove_snapshot(workspace, name).await
    })
    .await?;
    output.result(&json!({ "removed": name }), |out| writeln!(out, "Removed {name}."))?;
    Ok(held.exit_code(0))
}
