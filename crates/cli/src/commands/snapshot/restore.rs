//! `agentiso snapshot restore`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::{WorkspaceView, Workspaces};
use serde::Serialize;

use crate::args;
use crate::commands::hooks::{HookView, warn};
use crate::commands::{Held, waiting};
use crate::output::Output;
use crate::ui::{Stream, duration, milliseconds};

/// A workspace that was taken back.
#[derive(Serialize)]
struct Restored<'a> {
    #[serde(flatten)]
    workspace: &'a WorkspaceView,
    snapshot: &'a str,
    memory_restored: bool,
    away_ms: f64,
    hooks: &'a [HookView],
}

/// Takes a workspace back to a snapshot.
pub async fn restore(
    installation: &Installation,
    flags: args::Restore,
    output: Output,
) -> Result<u8, Failure> {
    let held = Held::new()?;
    let restored = waiting(output, "Still restoring", async |progress| {
        let workspaces = Workspaces::open(installation).await?;
        workspaces.restore(&flags.workspace, &flags.name, flags.disk_only, &progress).await
    })
    .await?;
    let hooks = HookView::all(&restored.hooks);
    let view = Restored {
        workspace: &restored.workspace,
        snapshot: &flags.name,
        memory_restored: restored.memory,
        away_ms: milliseconds(restored.away),
        hooks: &hooks,
    };
    output.result(&view, |out| {
        let what = if restored.memory { "memory and disk" } else { "disk" };
        writeln!(
            out,
            "Restored {} to {} ({what}): {}, away for {}.",
            restored.workspace.name,
            flags.name,
            restored.workspace.state,
            duration(restored.away)
        )?;
        warn(&mut Stream::stderr(), &hooks)
    })?;
    Ok(held.exit_code(0))
}
