//! `agentiso start`, `stop`, `suspend` and `resume`.

use std::io::{self, Write};
use std::time::Duration;

use agentiso_core::Failure;
use agentiso_core::action::{
    Action, WorkspaceResume, WorkspaceStart, WorkspaceStateNow, WorkspaceStop, WorkspaceSuspend,
};
use agentiso_runtime::Installation;

use crate::args;
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::{Stream, duration};

/// Starts a stopped workspace on its disk.
pub async fn start(here: &Installation, workspace: String, output: Output) -> Result<u8, Failure> {
    let wish = WorkspaceStart { workspace_id: workspace };
    change(here, output, "Still starting the workspace", "Started", &wish).await
}

/// Stops a workspace.
pub async fn stop(here: &Installation, flags: args::Stop, output: Output) -> Result<u8, Failure> {
    let args::Stop { workspace, force, timeout } = flags;
    let wish = WorkspaceStop { workspace_id: workspace, force, timeout_secs: timeout };
    change(here, output, "Still waiting for the workspace to power off", "Stopped", &wish).await
}

/// Writes a workspace's memory to disk and ends its machine.
pub async fn suspend(here: &Installation, workspace: String, output: Output) -> Result<u8, Failure> {
    let wish = WorkspaceSuspend { workspace_id: workspace };
    change(here, output, "Still suspending the workspace", "Suspended", &wish).await
}

/// Brings a suspended workspace back.
pub async fn resume(here: &Installation, workspace: String, output: Output) -> Result<u8, Failure> {
    let wish = WorkspaceResume { workspace_id: workspace };
    change(here, output, "Still resuming the workspace", "Resumed", &wish).await
}

async fn change<A: Action<Outcome = WorkspaceStateNow>>(
    here: &Installation,
    output: Output,
    doing: &str,
    done: &str,
    wish: &A,
) -> Result<u8, Failure> {
    let now = Daemon::reach(here, output).await?.change(doing, wish).await?;
    output.result(&now, |out| tell(out, done, &now))?;
    Ok(0)
}

fn tell(out: &mut Stream, done: &str, now: &WorkspaceStateNow) -> io::Result<()> {
    match &now.note {
        Some(note) => writeln!(out, "{} is {}: {note}.", now.name, now.state),
        None => writeln!(out, "{done} {} in {}.", now.name, duration(Duration::from_millis(now.took_ms))),
    }
}
