//! `agentiso create`: a machine that stays.

use std::io::Write;
use std::time::Instant;

use agentiso_core::Failure;
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::{CreateRequest, WorkspaceView, Workspaces};
use serde::Serialize;

use crate::args;
use crate::commands::size::size;
use crate::commands::{interruptible, waiting};
use crate::output::Output;
use crate::ui::{duration, milliseconds};

/// A workspace that was started.
#[derive(Serialize)]
pub(super) struct Started<'a> {
    /// The workspace.
    #[serde(flatten)]
    pub workspace: &'a WorkspaceView,
    /// How long it took.
    pub start_ms: f64,
}

/// Makes a workspace and starts it.
pub async fn create(installation: &Installation, flags: args::Create, output: Output) -> Result<u8, Failure> {
    let (image, resources) = size(installation, &flags.size)?;
    let name = flags.name.as_deref().map(str::parse).transpose()?;
    let request = CreateRequest { name, image, resources, cold: flags.size.cold, pool: !flags.no_pool };
    let began = Instant::now();
    let workspace = interruptible(waiting(output, "Still starting the workspace", async |progress| {
        Workspaces::open(installation).await?.create(&request, &progress).await
    }))
    .await?;
    let took = began.elapsed();
    output.result(&Started { workspace: &workspace, start_ms: milliseconds(took) }, |out| {
        let WorkspaceView { name, id, tier, .. } = &workspace;
        writeln!(out, "Created {name} ({id}): {tier}, {}.", duration(took))?;
        if out.is_terminal() {
            writeln!(out, "Try: agentiso exec {name} -- CMD")?;
        }
        Ok(())
    })?;
    Ok(0)
}
