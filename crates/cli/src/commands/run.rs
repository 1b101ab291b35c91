//! `agentiso run`: runs a command in a workspace that exists only for it.
//!
//! ```text
//!   flags checked ─► workspace created ─► command runs ─► exits ─► workspace destroyed ─► exit code
//!                        │ signal             │ signal: passed on to the command
//!                        ▼                    │ second signal: workspace destroyed at once
//!                  creation undone ◄──────────┘
//! ```
//!
//! The daemon does all of it in one stream, so the workspace is gone however this process ends.

use agentiso_config::paths::Paths;
use agentiso_core::action::{Accel, Size, Tier};
use agentiso_core::wire::{RunSpec, RunWorkspace};
use agentiso_core::{Code, Failure};
use serde::Serialize;

use super::Daemon;
use super::attend::{Attended, CommandReport, Outcome, Signals, attend_run, command, exit_code, signal_code};
use crate::args;
use crate::output::Output;

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    command: CommandReport,
    start_ms: f64,
    tier: Tier,
    accel: Option<Accel>,
    image: String,
    resources: Size,
}

/// Runs a command in a new workspace and returns its exit code.
pub async fn run(here: &Paths, flags: args::Run, output: Output) -> Result<u8, Failure> {
    let command = command(&flags.command, output)?;
    let args::Size { image: base_image, vcpus, memory: memory_mb, disk: disk_gb, cold } = flags.size;
    let network = flags.network.change_if_any();
    let workspace = RunWorkspace { base_image, vcpus, memory_mb, disk_gb, network, cold };
    let mut signals = Signals::new()?;
    let daemon = Daemon::reach(here, output).await?;
    let spec = RunSpec { workspace, command };
    let Attended { outcome, place } = attend_run(daemon.client(), &spec, &mut signals, output).await?;
    match outcome {
        Outcome::Interrupted(number) => Ok(signal_code(number)),
        Outcome::Refused(code, failure) => {
            output.failure(&failure);
            Ok(code)
        }
        Outcome::Ended { exit, captured } => {
            if output.json {
                let machine = place.machine.ok_or_else(|| {
                    Failure::new(
                        Code::DaemonUnavailable,
                        "the daemon did not report which machine it started",
                    )
                    .with_remedy("the daemon may have another version: agentiso daemon restart")
                })?;
                let report = Report {
                    command: CommandReport::new(&exit, &captured),
                    start_ms: machine.start_ms,
                    tier: machine.tier,
                    accel: machine.accel,
                    image: machine.base_image,
                    resources: machine.resources,
                };
                output.result(&report, |_| Ok(()))?;
            }
            Ok(exit_code(&exit))
        }
    }
}
