//! `agentiso exec`: runs a command in a workspace.
//!
//! ```text
//!   flags checked ─► workspace found ─► command runs ─► exits ─► exit code
//!                        │ signal           │ signal: passed on to the command
//!                        ▼                  │ second signal: command ended with all its children
//!                  nothing was started      ▼
//!                                     the workspace keeps running
//! ```

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use serde::Serialize;

use super::Daemon;
use super::attend::{
    Attended, CommandReport, Outcome, Signals, attend_exec, command, exit_code, signal_code,
};
use crate::args;
use crate::output::Output;

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    command: CommandReport,
    workspace: String,
    workspace_id: String,
}

/// Runs a command in a workspace and returns its exit code.
pub async fn exec(here: &Paths, flags: args::Exec, output: Output) -> Result<u8, Failure> {
    // Wrong flags are reported before a daemon is started.
    command(&flags.command, output)?;
    let daemon = Daemon::reach(here, output).await?;
    exec_in(&daemon, &flags.workspace, &flags.command, output).await
}

/// The same, with a daemon that is connected already.
pub(super) async fn exec_in(
    daemon: &Daemon,
    workspace: &str,
    flags: &args::Command,
    output: Output,
) -> Result<u8, Failure> {
    let spec = command(flags, output)?;
    let mut signals = Signals::new()?;
    let Attended { outcome, place } =
        attend_exec(daemon.client(), workspace, &spec, &mut signals, output).await?;
    match outcome {
        Outcome::Interrupted(number) => Ok(signal_code(number)),
        Outcome::Refused(code, failure) => {
            output.failure(&failure);
            Ok(code)
        }
        Outcome::Ended { exit, captured } => {
            if output.json {
                let command = CommandReport::new(&exit, &captured);
                let report = Report { command, workspace: place.name, workspace_id: place.id };
                output.result(&report, |_| Ok(()))?;
            }
            Ok(exit_code(&exit))
        }
    }
}
