//! `agentiso rm`.

use std::io::Write;

use agentiso_core::{Code, Failure};
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::{RemoveRequest, WorkspaceView, Workspaces};
use serde_json::json;

use crate::args;
use crate::commands::{Held, waiting};
use crate::output::Output;

/// Removes workspaces: none of them if one is not there or must not be removed.
pub async fn rm(installation: &Installation, flags: args::Rm, output: Output) -> Result<u8, Failure> {
    let held = Held::new()?;
    let removed = waiting(output, "Still removing", async |_| {
        let workspaces = Workspaces::open(installation).await?;
        let views =
            flags.workspaces.iter().map(|asked| workspaces.info(asked)).collect::<Result<Vec<_>, _>>()?;
        if !flags.force {
            refuse_running(&views)?;
        }
        let mut removed = Vec::new();
        for view in views {
            // The same one may have been named twice.
            if !removed.contains(&view.name) {
                let workspace = view.id.to_string();
                workspaces.remove(&RemoveRequest { workspace, force: flags.force }).await?;
                removed.push(view.name);
            }
        }
        Ok(removed)
    })
    .await?;
    output.result(&json!({ "removed": removed }), |out| {
        removed.iter().try_for_each(|name| writeln!(out, "Removed {name}."))
    })?;
    Ok(held.exit_code(0))
}

fn refuse_running(views: &[WorkspaceView]) -> Result<(), Failure> {
    let running: Vec<&str> =
        views.iter().filter(|view| view.state == "running").map(|view| view.name.as_str()).collect();
    if running.is_empty() {
        return Ok(());
    }
    let names = running.join(" ");
    let message = format!("still running, so nothing was removed: {}", running.join(", "));
    Err(Failure::new(Code::WorkspaceRunning, message)
        .with_remedy(format!("stop them first, or say: agentiso rm --force {names}")))
}
