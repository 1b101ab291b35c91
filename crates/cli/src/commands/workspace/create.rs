//! `agentiso create`: a machine that stays.

use std::io::Write;
use std::time::Duration;

use agentiso_core::Failure;
use agentiso_core::action::WorkspaceCreate;
use agentiso_runtime::Installation;

use crate::args;
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::duration;

/// Makes a workspace and starts it.
pub async fn create(here: &Installation, flags: args::Create, output: Output) -> Result<u8, Failure> {
    let wish = WorkspaceCreate {
        name: flags.name,
        base_image: flags.size.image,
        vcpus: flags.size.vcpus,
        memory_mb: flags.size.memory,
        disk_gb: flags.size.disk,
        labels: flags.labels.into_iter().collect(),
        ttl_secs: flags.ttl,
        idle_stop_secs: flags.idle_stop,
        cold: flags.size.cold,
        no_pool: flags.no_pool,
        ..WorkspaceCreate::default()
    };
    let daemon = Daemon::reach(here, output).await?;
    let made = daemon.change("Still starting the workspace", &wish).await?;
    output.result(&made, |out| {
        let took = duration(Duration::from_millis(made.boot_time_ms));
        writeln!(out, "Created {} ({}): {}, {took}.", made.name, made.workspace_id, made.tier)?;
        if out.is_terminal() {
            writeln!(out, "Try: agentiso exec {} -- CMD", made.name)?;
        }
        Ok(())
    })?;
    Ok(0)
}
