//! `agentiso rm`.

use std::io::Write;

use agentiso_core::action::{WorkspaceBrief, WorkspaceDestroy, WorkspaceInfo};
use agentiso_core::{Code, Failure};
use agentiso_runtime::Installation;
use serde_json::json;

use crate::args;
use crate::commands::Daemon;
use crate::output::Output;

/// Removes workspaces: none of them if one is not there or must not be removed.
pub async fn rm(here: &Installation, flags: args::Rm, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    let mut found: Vec<WorkspaceBrief> = Vec::new();
    for workspace in flags.workspaces {
        let wish = WorkspaceInfo { workspace_id: workspace };
        let brief = daemon.ask("Still looking", &wish).await?.brief;
        // The same one may have been named twice.
        if !found.iter().any(|other| other.workspace_id == brief.workspace_id) {
            found.push(brief);
        }
    }
    if !flags.force {
        refuse_running(&found)?;
    }
    let mut removed = Vec::new();
    for WorkspaceBrief { workspace_id, name, .. } in found {
        let what = format!("Still removing {name}");
        removed.push(daemon.change(&what, &WorkspaceDestroy { workspace_id }).await?);
    }
    output.result(&json!({ "removed": removed }), |out| {
        removed.iter().try_for_each(|gone| writeln!(out, "Removed {}.", gone.name))
    })?;
    Ok(0)
}

fn refuse_running(found: &[WorkspaceBrief]) -> Result<(), Failure> {
    let running: Vec<&str> =
        found.iter().filter(|brief| brief.state == "running").map(|brief| brief.name.as_str()).collect();
    if running.is_empty() {
        return Ok(());
    }
    let names = running.join(" ");
    let message = format!("still running, so nothing was removed: {}", running.join(", "));
    Err(Failure::new(Code::WorkspaceRunning, message)
        .with_remedy(format!("stop them first, or say: agentiso rm --force {names}")))
}
