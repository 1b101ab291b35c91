//! `agentiso start` and `agentiso stop`.

use std::io::Write;
use std::time::{Duration, Instant};

use agentiso_core::Failure;
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::{WorkspaceView, Workspaces};
use serde::Serialize;

use super::create::Started;
use crate::args;
use crate::commands::{Held, interruptible, waiting};
use crate::output::Output;
use crate::ui::{duration, milliseconds};

/// A workspace that was stopped.
#[derive(Serialize)]
struct Stopped<'a> {
    #[serde(flatten)]
    workspace: &'a WorkspaceView,
    clean: bool,
}

/// Starts a stopped workspace on its disk.
pub async fn start(installation: &Installation, asked: &str, output: Output) -> Result<u8, Failure> {
    let began = Instant::now();
    let workspace = interruptible(waiting(output, "Still starting the workspace", async |progress| {
        Workspaces::open(installation).await?.start(asked, &progress).await
    }))
    .await?;
    let took = began.elapsed();
    output.result(&Started { workspace: &workspace, start_ms: milliseconds(took) }, |out| {
        writeln!(out, "Started {}: {}, {}.", workspace.name, workspace.tier, duration(took))
    })?;
    Ok(0)
}

/// Stops a workspace.
pub async fn stop(installation: &Installation, flags: args::Stop, output: Output) -> Result<u8, Failure> {
    let held = Held::new()?;
    let limit = flags.timeout.map(Duration::from_secs);
    let (workspace, clean) = waiting(output, "Still waiting for the workspace to power off", async |_| {
        let workspaces = Workspaces::open(installation).await?;
        let clean = workspaces.stop(&flags.workspace, flags.force, limit).await?;
        Ok((workspaces.info(&flags.workspace)?, clean))
    })
    .await?;
    output.result(&Stopped { workspace: &workspace, clean }, |out| {
        let how = match &workspace.stop_reason {
            Some(reason) if !clean => format!(": {reason}"),
            _ => String::new(),
        };
        writeln!(out, "Stopped {}{how}.", workspace.name)
    })?;
    Ok(held.exit_code(0))
}
