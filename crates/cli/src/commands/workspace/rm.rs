//! `agentiso rm`.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::action::{State, WorkspaceBrief, WorkspaceDestroy};
use agentiso_core::{Code, Failure};
use serde_json::json;

use super::selection::chosen;
use crate::args;
use crate::commands::Daemon;
use crate::output::Output;

/// Removes workspaces: none of them if one does not exist, runs, or is suspended with its processes.
pub async fn rm(here: &Paths, flags: args::Rm, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    let found = chosen(&daemon, flags.which).await?;
    if !flags.force {
        refuse_running(&found)?;
    }
    remove(&daemon, found, output).await
}

/// Removes workspaces one after the other and says so.
pub(super) async fn remove(
    daemon: &Daemon,
    found: Vec<WorkspaceBrief>,
    output: Output,
) -> Result<u8, Failure> {
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
    let alive: Vec<&WorkspaceBrief> = found.iter().filter(|brief| brief.state != State::Stopped).collect();
    if alive.is_empty() {
        return Ok(());
    }
    let states: Vec<String> =
        alive.iter().map(|brief| format!("{} is {}", brief.name, brief.state)).collect();
    let names: Vec<&str> = alive.iter().map(|brief| brief.name.as_str()).collect();
    let message = format!("nothing was removed: {}", states.join(", "));
    Err(Failure::new(Code::WorkspaceRunning, message).with_remedy(format!(
        "to remove them with their processes, run: agentiso rm --force {}",
        names.join(" ")
    )))
}
