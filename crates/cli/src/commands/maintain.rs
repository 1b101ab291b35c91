//! `agentiso maintain`: what is done in the background.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;
use agentiso_runtime::Installation;
use agentiso_runtime::paths::Paths;
use agentiso_runtime::workspaces::{Maintained, Workspaces};

use crate::output::Output;

/// Shortens chains of disks and fills the pool.
pub async fn maintain(installation: &Installation, detached: bool, output: Output) -> Result<u8, Failure> {
    if detached {
        // What ends the terminal's commands must not end this; if it does, the next one carries on.
        let _ = rustix::process::setsid();
    }
    let progress: Arc<dyn Progress> = output.progress();
    let work = async { Workspaces::open(installation).await?.maintain(&progress).await };
    let done = super::interruptible(work).await?;
    drop(progress);
    output.result(&done, |out| {
        let Maintained { merged, shortened, moved, made_ready, dismissed } = done;
        writeln!(out, "Disks: {merged} merged, {shortened} shortened, {moved} machines moved to them.")?;
        writeln!(out, "Pool: {made_ready} machines made ready, {dismissed} dismissed.")
    })?;
    Ok(0)
}

/// Starts the maintenance as a process of its own if there is anything to do.
pub async fn maintain_later(installation: &Installation) {
    let Ok(workspaces) = Workspaces::open(installation).await else { return };
    if workspaces.needs_maintenance()
        && let Err(error) = spawn(&installation.paths)
    {
        tracing::warn!(%error, "could not start the maintenance");
    }
}

fn spawn(paths: &Paths) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--quiet", "maintain", "--detached"]);
    if paths.config_named {
        command.arg("--config").arg(&paths.config_file);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It outlives this process, so that there is nobody to wait for it.
    command.spawn().map(drop)
}
