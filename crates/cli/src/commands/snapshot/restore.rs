//! `agentiso snapshot restore`.

use std::io::Write;
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::SnapshotRestore;

use crate::args;
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::{Stream, duration};

/// Takes a workspace back to a snapshot.
pub async fn restore(here: &Paths, flags: args::Restore, output: Output) -> Result<u8, Failure> {
    let args::Restore { workspace, name, disk_only } = flags;
    let request = SnapshotRestore { workspace_id: workspace.clone(), snapshot_name: name, disk_only };
    let restored = Daemon::reach(here, output).await?.change("Still restoring", &request).await?;
    output.result(&restored, |out| {
        let what = if restored.memory_restored { "memory and disk" } else { "disk" };
        let away = duration(Duration::from_secs_f64(restored.away_ms / 1e3));
        let (name, state) = (&restored.snapshot_name, &restored.state);
        writeln!(out, "Restored {workspace} to {name} ({what}): {state}, downtime {away}.")?;
        let mut err = Stream::stderr();
        let paint = err.paint();
        restored.failed_hooks.iter().try_for_each(|hook| {
            // Its name comes from inside a machine.
            writeln!(err, "{} the hook {hook:?} failed", paint.warning("warning:"))
        })
    })?;
    Ok(0)
}
