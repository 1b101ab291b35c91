//! `agentiso exec`: a command in a workspace, which goes on afterwards.
//!
//! ```text
//!   flags checked ─► workspace reached ─► command runs ─► exits ─► exit code
//!                        │ signal             │ signal: passed on to the command
//!                        ▼                    │ again: command ended with all its children
//!                  nothing has changed        ▼
//!                                     the workspace goes on
//! ```

use agentiso_core::Failure;
use agentiso_runtime::Installation;
use serde::Serialize;

use super::Daemon;
use super::attend::{CommandReport, Outcome, Signals, attend_in_workspace, command, exit_code, signal_code};
use crate::args;
use crate::output::Output;

/// What a command in a workspace came to.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    command: CommandReport,
    workspace: String,
    workspace_id: String,
}

/// Runs a command in a workspace and returns its exit code.
pub async fn exec(here: &Installation, flags: args::Exec, output: Output) -> Result<u8, Failure> {
    // Wrong flags are told before a daemon is started for them.
    command(&flags.command, output)?;
    let daemon = Daemon::reach(here, output).await?;
    exec_in(&daemon, &flags.workspace, &flags.command, output).await
}

/// The same, with a daemon that was reached already.
pub(super) async fn exec_in(
    daemon: &Daemon,
    workspace: &str,
    flags: &args::Command,
    output: Output,
) -> Result<u8, Failure> {
    let spec = command(flags, output)?;
    let mut signals = Signals::new()?;
    let attended = attend_in_workspace(daemon.client(), workspace, &spec, &mut signals, output).await?;
    match attended {
        (Outcome::Interrupted(number), _) => Ok(signal_code(number)),
        (Outcome::Refused(code, failure), _) => {
            output.failure(&failure);
            Ok(code)
        }
        (Outcome::Ended { exit, captured }, place) => {
            if output.json {
                let command = CommandReport::new(&exit, &captured);
                let report = Report { command, workspace: place.name, workspace_id: place.id };
                output.result(&report, |_| Ok(()))?;
            }
            Ok(exit_code(&exit))
        }
    }
}
