//! `agentiso run`: a command in a machine that is gone afterwards.
//!
//! ```text
//!   flags checked ─► machine started ─► command runs ─► exits ─► machine destroyed ─► exit code
//!                        │ signal           │ signal: passed on to the command
//!                        ▼                  │ again: machine destroyed at once
//!                  nothing is left ◄────────┘
//! ```

use std::time::Instant;

use agentiso_core::{Failure, ImageName, Resources, WorkspaceId};
use agentiso_engine::{exec_of, with_image_defaults};
use agentiso_runtime::{Accel, Installation, StartRequest, Tier};
use serde::Serialize;

use super::attend::{CommandReport, Outcome, Signals, attend, command, exit_code, signal_code};
use super::size::size;
use crate::args;
use crate::output::Output;
use crate::ui::milliseconds;

/// What a run came to.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    command: CommandReport,
    start_ms: f64,
    tier: Tier,
    accel: Accel,
    image: ImageName,
    resources: Resources,
}

/// Runs a command in a new machine and returns its exit code.
pub async fn run(installation: &Installation, flags: args::Run, output: Output) -> Result<u8, Failure> {
    let exec = exec_of(command(&flags.command, output)?)?;
    let (image, resources) = size(installation, &flags.size)?;
    let id = WorkspaceId::from_uuid(uuid::Uuid::now_v7());
    let request = StartRequest { id, image, resources, cold: flags.size.cold };
    let mut signals = Signals::new()?;
    let began = Instant::now();
    let running = {
        let progress = output.progress();
        tokio::select! {
            started = installation.start(&request, &progress) => started?,
            number = signals.ending() => return Ok(signal_code(number)),
        }
    };
    let start_ms = milliseconds(began.elapsed());
    let exec = with_image_defaults(exec, &running.defaults, &[]);
    let outcome = attend(&running.machine, exec, &mut signals, output).await;
    let (tier, accel) = (running.tier, running.accel);
    running.destroy().await;
    match outcome? {
        Outcome::Interrupted(number) => Ok(signal_code(number)),
        Outcome::Refused(code, failure) => {
            output.failure(&failure);
            Ok(code)
        }
        Outcome::Ended { exit, captured } => {
            if output.json {
                let command = CommandReport::new(&exit, &captured);
                let StartRequest { image, resources, .. } = request;
                output.result(&Report { command, start_ms, tier, accel, image, resources }, |_| Ok(()))?;
            }
            Ok(exit_code(&exit))
        }
    }
}
