//! `agentiso status`.

use std::io::{self, Write};
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{ServerState, ServerStatus};

use super::{Daemon, NoFlags};
use crate::output::Output;
use crate::ui::{Stream, age};

/// Shows the daemon's status.
pub async fn status(here: &Paths, _: NoFlags, output: Output) -> Result<u8, Failure> {
    let state = Daemon::reach(here, output).await?.ask("Still looking", &ServerStatus {}).await?;
    output.result(&state, |out| describe(out, &state))?;
    Ok(0)
}

/// In words.
pub(super) fn describe(out: &mut Stream, state: &ServerState) -> io::Result<()> {
    let states: Vec<String> =
        state.workspaces.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let states = if states.is_empty() { "none".to_owned() } else { states.join(", ") };
    let used = state.usage;
    writeln!(out, "running     process {}, version {}", state.pid, state.version)?;
    writeln!(out, "up          {}", age(Duration::from_secs(state.uptime_secs)))?;
    writeln!(out, "home        {}", state.home)?;
    writeln!(out, "workspaces  {states}")?;
    writeln!(out, "size        {} MiB of memory, {} GiB of disk", used.memory_mb, used.disk_gb)?;
    let (ready, wanted, why) = (state.pool, state.pool_wanted, &state.pool_why);
    match (ready, wanted) {
        (0, 0) => writeln!(out, "pool        none: {why}"),
        _ => writeln!(out, "pool        {ready} of {wanted} ready: {why}"),
    }
}
