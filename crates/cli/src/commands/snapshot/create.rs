//! `agentiso snapshot create`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::{SnapshotRequest, Workspaces};
use serde_json::json;

use crate::args;
use crate::commands::{Held, waiting};
use crate::output::Output;
use crate::ui::{bytes, duration, milliseconds};

/// Takes a snapshot.
pub async fn create(
    installation: &Installation,
    flags: args::TakeSnapshot,
    output: Output,
) -> Result<u8, Failure> {
    let held = Held::new()?;
    let args::TakeSnapshot { workspace, name, memory, description } = flags;
    let request = SnapshotRequest { workspace, name: name.parse()?, description, memory };
    let taken = waiting(output, "Still taking the snapshot", async |_| {
        Workspaces::open(installation).await?.snapshot(&request).await
    })
    .await?;
    let (snapshot, pause) = (&taken.snapshot, taken.pause);
    let (written, pages) = taken.memory.as_ref().map_or((0, 0), |written| (written.bytes, written.pages));
    let object = json!({
        "workspace_id": snapshot.workspace,
        "name": snapshot.name,
        "description": snapshot.description,
        "created": snapshot.created,
        "memory": snapshot.memory.is_some(),
        "pause_ms": milliseconds(pause),
        "memory_pages": pages,
        "written_bytes": written,
    });
    output.result(&object, |out| {
        let what = if request.memory { "memory and disk" } else { "disk" };
        writeln!(
            out,
            "Took {} ({what}): paused for {}, {} written.",
            snapshot.name,
            duration(pause),
            bytes(written)
        )
    })?;
    Ok(held.exit_code(0))
}
