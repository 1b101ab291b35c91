//! `agentiso update`.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::WorkspaceUpdate;

use crate::args::{self, Changes, Switch};
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui;

/// Changes the size, times and restart of a workspace.
pub async fn update(here: &Paths, flags: args::Update, output: Output) -> Result<u8, Failure> {
    let Changes { vcpus, memory, ttl, idle_stop, restart } = flags.changes;
    let resized = vcpus.is_some() || memory.is_some();
    let request = WorkspaceUpdate {
        workspace_id: flags.workspace.clone(),
        vcpus,
        memory_mb: memory,
        ttl_secs: ttl,
        idle_stop_secs: idle_stop,
        restart: restart.map(|switch| switch == Switch::Yes),
        ..WorkspaceUpdate::default()
    };
    let updated = Daemon::reach(here, output).await?.change("Still updating the workspace", &request).await?;
    output.result(&updated, |out| {
        writeln!(out, "Updated {}.", flags.workspace)?;
        match updated.next_resources {
            Some(next) if resized => writeln!(
                out,
                "It will have {} and {} MiB of memory after its next start: agentiso stop {ws} && agentiso start {ws}",
                ui::vcpus(next.vcpus),
                next.memory_mb,
                ws = flags.workspace
            ),
            _ => Ok(()),
        }
    })?;
    Ok(0)
}
