//! `agentiso fork`: new workspaces from one that exists.

use std::io::{self, Write};
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{WorkspaceFork, WorkspaceForked, WorkspaceInfo};

use super::Daemon;
use crate::args;
use crate::output::Output;
use crate::ui::{Stream, duration};

/// The exit code if a fork could not be made.
const SOME_FAILED: u8 = 1;

/// Makes forks.
pub async fn fork(here: &Paths, flags: args::Fork, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    let request = request(&daemon, flags).await?;
    let made = daemon.change("Still forking", &request).await?;
    output.result(&made, |out| tell(out, &made))?;
    Ok(if made.failure_count == 0 { 0 } else { SOME_FAILED })
}

async fn request(daemon: &Daemon, flags: args::Fork) -> Result<WorkspaceFork, Failure> {
    let (new_name, name_prefix) = match (flags.count, flags.name) {
        (1, name) => (name, None),
        (_, Some(prefix)) => (None, Some(prefix)),
        (_, None) => {
            // It may have been asked for by its id.
            let source = WorkspaceInfo { workspace_id: flags.workspace.clone() };
            (None, Some(daemon.ask("Still looking", &source).await?.brief.name))
        }
    };
    Ok(WorkspaceFork {
        workspace_id: flags.workspace,
        snapshot_name: flags.snapshot,
        new_name,
        count: Some(flags.count),
        name_prefix,
        all_or_nothing: flags.all_or_nothing,
        disk_only: flags.disk_only,
        secrets: flags.secrets,
        network: flags.network.change_if_any(),
        idempotency_key: None,
    })
}

fn tell(out: &mut Stream, made: &WorkspaceForked) -> io::Result<()> {
    for worker in &made.workers {
        writeln!(out, "Forked {} ({}).", worker.name, worker.workspace_id)?;
    }
    let mut err = Stream::stderr();
    let paint = err.paint();
    for failure in &made.failures {
        let label = paint.bad(&format!("error[{}]", failure.code));
        writeln!(err, "{label}: could not create {}: {}", failure.name, failure.error)?;
    }
    let pause = if made.source_pause_ms > 0.0 {
        let pause = duration(Duration::from_secs_f64(made.source_pause_ms / 1e3));
        format!("; downtime of {} {pause}", made.forked_from.source_workspace_name)
    } else {
        String::new()
    };
    let took = duration(Duration::from_millis(made.took_ms));
    writeln!(out, "{} of {} in {took}{pause}.", made.success_count, made.requested_count)
}
