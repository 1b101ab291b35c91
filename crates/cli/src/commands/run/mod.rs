//! `agentiso run`: a command in a machine that is gone afterwards.
//!
//! ```text
//!   flags checked ─► machine started ─► command runs ─► exits ─► machine destroyed ─► exit code
//!                        │ signal           │ signal: passed on to the command
//!                        ▼                  │ again: machine destroyed at once
//!                  nothing is left ◄────────┘
//! ```

mod attend;
mod report;
mod request;
mod signals;

use std::time::Instant;

use agentiso_core::{Code, Failure};
use agentiso_runtime::Installation;

use self::attend::{Outcome, attend};
use self::report::Report;
use self::signals::Signals;
use crate::args;
use crate::output::Output;
use crate::ui::{Stream, report as report_failure};

pub use self::report::FAILED;

/// Runs a command in a new machine and returns its exit code.
pub async fn run(installation: &Installation, flags: args::Run, output: Output) -> Result<u8, Failure> {
    if flags.tty && output.json {
        return Err(Failure::new(Code::InvalidArgument, "--tty and --json cannot be used together"));
    }
    let request = request::start(installation, &flags)?;
    let exec = request::exec(&flags)?;
    let mut signals = Signals::new()?;
    let began = Instant::now();
    let running = {
        let progress = output.progress();
        tokio::select! {
            started = installation.start(&request, &progress) => started?,
            number = signals.ending() => return Ok(report::signal_code(number)),
        }
    };
    let report = Report::new(&request, &running, began.elapsed());
    let exec = request::with_image_defaults(exec, &running.defaults);
    let outcome = attend(&running.machine, exec, &mut signals, output).await;
    running.destroy().await;
    match outcome? {
        Outcome::Interrupted(number) => Ok(report::signal_code(number)),
        Outcome::Refused(code, failure) => {
            // If not even this can be written there is nobody to tell.
            let _ = report_failure(&failure, output.json, &mut Stream::stdout(), &mut Stream::stderr());
            Ok(code)
        }
        Outcome::Ended { exit, captured } => {
            if output.json {
                output.result(&report.finish(&exit, &captured), |_| Ok(()))?;
            }
            Ok(report::exit_code(&exit))
        }
    }
}
