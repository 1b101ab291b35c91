//! `agentiso jobs logs` and `wait`.

use std::io::Write;

use agentiso_core::action::{JobPoll, JobPolled, WaitFor};
use agentiso_core::{Code, Failure};

use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::Stream;

/// Seconds one look waits for news.
const PATIENCE: u64 = 300;
/// What is shown at once.
const PIECE: u64 = 1 << 20;

/// Shows the output of a job, and with `follow` new output as it is printed.
pub async fn logs(
    daemon: &Daemon,
    workspace: String,
    id: u32,
    follow: bool,
    output: Output,
) -> Result<u8, Failure> {
    if follow && output.json {
        return Err(Failure::new(Code::InvalidArgument, "--follow and --json cannot be used together"));
    }
    let mut request = JobPoll {
        workspace_id: workspace,
        job_id: id,
        max_output_bytes: Some(PIECE),
        wait_secs: Some(PATIENCE),
        ..JobPoll::default()
    };
    loop {
        let polled = daemon.ask_quietly(&request).await?;
        output.result(&polled, |out| {
            out.verbatim().write_all(polled.stdout.as_bytes())?;
            let mut err = Stream::stderr();
            err.verbatim().write_all(polled.stderr.as_bytes()).and_then(|()| err.flush())
        })?;
        // To a program the first look is the answer; it asks for more itself.
        let goes_on = polled.more || (follow && polled.running);
        if output.json || !goes_on {
            return Ok(0);
        }
        request.stdout_offset = Some(polled.next_stdout_offset);
        request.stderr_offset = Some(polled.next_stderr_offset);
        request.wait = (!polled.more).then_some(WaitFor::Output);
    }
}

/// Waits for a job's end; the exit code is its own.
pub async fn wait(daemon: &Daemon, workspace: String, id: u32, output: Output) -> Result<u8, Failure> {
    let request = JobPoll {
        workspace_id: workspace,
        job_id: id,
        max_output_bytes: Some(PIECE),
        wait: Some(WaitFor::Exit),
        wait_secs: Some(PATIENCE),
        ..JobPoll::default()
    };
    let ended = loop {
        let polled: JobPolled = daemon.ask_quietly(&request).await?;
        if !polled.running {
            break polled;
        }
    };
    let code = ended.exit_code.unwrap_or_default();
    output.result(&ended, |out| match ended.timed_out {
        true => writeln!(out, "Job {id} timed out."),
        false => writeln!(out, "Job {id} ended: exit code {code}."),
    })?;
    Ok(u8::try_from(code & 0xff).unwrap_or(1))
}
