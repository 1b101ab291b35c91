//! `agentiso snapshot create`.

use std::io::Write;
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::SnapshotCreate;

use crate::args;
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::{bytes, duration};

/// Takes a snapshot.
pub async fn create(here: &Paths, flags: args::TakeSnapshot, output: Output) -> Result<u8, Failure> {
    let args::TakeSnapshot { workspace, name, memory, description } = flags;
    let request = SnapshotCreate {
        workspace_id: workspace,
        name,
        include_memory: Some(memory),
        description: (!description.is_empty()).then_some(description),
    };
    let taken = Daemon::reach(here, output).await?.change("Still taking the snapshot", &request).await?;
    output.result(&taken, |out| {
        let what = if taken.has_memory { "memory and disk" } else { "disk" };
        let pause = duration(Duration::from_secs_f64(taken.pause_ms / 1e3));
        let written = bytes(taken.memory_bytes.unwrap_or(0));
        writeln!(out, "Created snapshot {} ({what}): downtime {pause}, {written} written.", taken.name)
    })?;
    Ok(0)
}
