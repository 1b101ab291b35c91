//! Waiting for a command, and turning it into a job when its caller waits no longer.
//!
//! Until then its output comes here; from then on the agent keeps it. Nothing is lost in between: the agent ends the
//! stream with the job's number behind the last byte it sent.

use std::time::Duration;

use agentiso_core::ports::link::{Exit, JobRead, JobWait, Link, LinkError, Process, ProcessEvent};
use agentiso_core::{Capture, Code, Failure};
use tokio::time::{Instant, sleep_until};

use super::jobs::{about_job, read_up_to};
use crate::spill::Output;

/// The most bytes that are read of a job's output: all that the guest agent keeps.
const KEPT: u64 = 1 << 20;

/// When a command becomes a job, and when the agent then ends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handover {
    pub(super) at: Instant,
    /// Milliseconds since the command's start; no limit if absent.
    pub(super) timeout_ms: Option<u64>,
}

/// How waiting for a command ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// The command has ended.
    Exited(Exit),
    /// It continues as this job.
    Job(u32),
}

/// Receives the output of a command.
pub(super) trait Takes {
    /// Takes some of its standard output.
    fn out(&mut self, bytes: &[u8]) -> impl Future<Output = ()> + Send;
    /// Takes some of its standard error.
    fn err(&mut self, bytes: &[u8]) -> impl Future<Output = ()> + Send;
}

impl Takes for (Capture, Capture) {
    async fn out(&mut self, bytes: &[u8]) {
        self.0.push(bytes);
    }

    async fn err(&mut self, bytes: &[u8]) {
        self.1.push(bytes);
    }
}

impl Takes for Output {
    async fn out(&mut self, bytes: &[u8]) {
        self.stdout(bytes).await;
    }

    async fn err(&mut self, bytes: &[u8]) {
        self.stderr(bytes).await;
    }
}

/// Waits for a command until it ends or becomes a job.
pub(super) async fn run(
    mut process: Box<dyn Process>,
    stdin: Option<&str>,
    output: &mut impl Takes,
    handover: Option<Handover>,
) -> Result<Ending, Failure> {
    let control = process.control();
    let input = process.take_stdin();
    let feed = async {
        if let (Some(mut input), Some(text)) = (input, stdin) {
            // A command need not read all it is given.
            let _ = input.write(text.as_bytes()).await;
            drop(input);
        }
    };
    let patience = sleep_until(handover.map_or_else(Instant::now, |handover| handover.at));
    tokio::pin!(feed, patience);
    let (mut feeding, mut offer) = (true, handover);
    loop {
        tokio::select! {
            event = process.next() => match event? {
                Some(ProcessEvent::Stdout(bytes)) => output.out(&bytes).await,
                Some(ProcessEvent::Stderr(bytes)) => output.err(&bytes).await,
                Some(ProcessEvent::Exited(exit)) => return Ok(Ending::Exited(exit)),
                Some(ProcessEvent::Detached { job }) => return Ok(Ending::Job(job)),
                Some(ProcessEvent::Started { .. } | ProcessEvent::InputRead(_)) => {}
                None => return Err(Failure::new(Code::GuestFailed, "the command ended without a word")),
            },
            () = &mut feed, if feeding => feeding = false,
            // Input that is not sent yet would be lost.
            () = &mut patience, if offer.is_some() && !feeding => {
                let timeout_ms = offer.take().and_then(|handover| handover.timeout_ms);
                match control.detach(timeout_ms).await {
                    // An older agent cannot; the command is waited for as ever.
                    Ok(()) | Err(LinkError::OldAgent { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

/// Waits for the job that a command became, and collects its output since then.
pub(super) async fn wait_again(
    guest: &Link,
    id: u32,
    patience: Duration,
    output: &mut Output,
) -> Result<(Ending, [u64; 2]), Failure> {
    let wait_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    let read = JobRead {
        id,
        max: u32::try_from(KEPT).unwrap_or(u32::MAX),
        wait: JobWait::Exit,
        wait_ms,
        ..JobRead::default()
    };
    let read = read_up_to(guest, read, KEPT).await.map_err(|error| about_job(error, id))?;
    output.stdout(&read.stdout).await;
    output.stderr(&read.stderr).await;
    let ending = match read.info.exit {
        Some(exit) => Ending::Exited(exit),
        None if read.info.running => Ending::Job(id),
        None => return Err(Failure::new(Code::GuestFailed, format!("it is not known how job {id} ended"))),
    };
    Ok((ending, [read.info.stdout.end, read.info.stderr.end]))
}
