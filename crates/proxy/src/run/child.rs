//! The command itself: its streams, its time limit, its end.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use agentiso_core::{Code, Failure};
use agentiso_jail::{End, Exit, JailError, Running, Stdio};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Call;
use crate::capture::{Capture, Captured, Limits};
use crate::envelope::{Outcome, ResultReport, UsageReport};

/// How long an interrupted command may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// Who sees output while the command runs.
pub trait Live: Sync {
    /// Shows output, as it was written.
    fn output(&self, stream: OutputStream, bytes: &[u8]);
}

/// An output stream of a command.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Nobody.
impl Live for () {
    fn output(&self, _: OutputStream, _: &[u8]) {}
}

/// Our ends of the streams of a command.
pub struct Streams {
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Makes the streams.
pub fn streams(stdin: Option<File>) -> io::Result<(Stdio, Streams)> {
    let mut theirs = Stdio::null()?;
    if let Some(file) = stdin {
        theirs.stdin = file.into();
    }
    let (stdout, write) = pipe_with(PipeFlags::CLOEXEC)?;
    theirs.stdout = write;
    let (stderr, write) = pipe_with(PipeFlags::CLOEXEC)?;
    theirs.stderr = write;
    Ok((theirs, Streams { stdout, stderr }))
}

/// Waits for the command, and reads what it writes. `files` is the path of the files of long outputs, without ending.
pub fn attend(
    running: &mut Running,
    streams: Streams,
    files: &Path,
    call: &Call<'_>,
    result: &mut ResultReport,
) -> Result<Outcome, Failure> {
    let began = Instant::now();
    let live = call.live;
    let capture = |stream: OutputStream, from: OwnedFd| {
        let path = files.with_extension(stream.as_str());
        Capture::new(Limits::DEFAULT, path).drain(File::from(from), |bytes| live.output(stream, bytes))
    };
    let (ended, stdout, stderr) = thread::scope(|scope| {
        let stdout = scope.spawn(|| capture(OutputStream::Stdout, streams.stdout));
        let stderr = scope.spawn(|| capture(OutputStream::Stderr, streams.stderr));
        let ended = wait(running, call.stop);
        result.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        (ended, stdout.join(), stderr.join())
    });
    keep(stdout, &mut result.stdout, &mut result.stdout_capture, &mut result.warnings);
    keep(stderr, &mut result.stderr, &mut result.stderr_capture, &mut result.warnings);
    Ok(outcome(&ended?, result))
}

fn keep(
    captured: thread::Result<Captured>,
    text: &mut String,
    report: &mut crate::envelope::CaptureReport,
    warnings: &mut Vec<String>,
) {
    match captured {
        Ok(captured) => {
            *text = captured.text;
            *report = captured.report;
            warnings.extend(captured.warning);
        }
        Err(_) => {
            report.complete = false;
            warnings.push("reading the output failed: this is a bug in agentiso".to_owned());
        }
    }
}

/// Waits for the end. If `stop` becomes readable, the command is ended.
fn wait(running: &mut Running, stop: BorrowedFd<'_>) -> Result<Exit, Failure> {
    let failed =
        |error: rustix::io::Errno| Failure::new(Code::Io, format!("could not wait for the command: {error}"));
    loop {
        let mut ready =
            [PollFd::new(&*running, PollFlags::IN), PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled.map_err(failed)?,
        };
        let (ended, interrupted) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
        if ended {
            return Ok(running.wait()?);
        }
        if interrupted {
            running.kill(GRACE)?;
            return Ok(running.wait()?);
        }
    }
}

/// How the command ended.
fn outcome(exit: &Exit, result: &mut ResultReport) -> Outcome {
    result.usage = Some(UsageReport {
        user_ms: millis(exit.usage.user),
        system_ms: millis(exit.usage.system),
        max_rss_bytes: exit.usage.max_rss,
    });
    if exit.oom_killed {
        result
            .warnings
            .push("the command was killed because it needed more memory than its limit".to_owned());
    }
    let by_itself = match exit.end {
        End::Code(code) => {
            result.exit_code = code;
            if code == 0 { Outcome::Done } else { Outcome::Failed }
        }
        End::Signal(signal) => {
            result.exit_code = -1;
            result.signal = Some(signal);
            result.signal_name = signal_hook::low_level::signal_name(signal).map(str::to_owned);
            Outcome::Killed
        }
    };
    match (exit.timed_out, exit.killed) {
        (true, _) => Outcome::TimedOut,
        (false, true) => {
            // It may have ended by itself on SIGTERM; it was still cut short.
            result.signal.get_or_insert(signal_hook::consts::SIGTERM);
            result.signal_name.get_or_insert_with(|| "SIGTERM".to_owned());
            Outcome::Killed
        }
        (false, false) => by_itself,
    }
}

/// A program that cannot be started is an outcome of its own.
pub fn not_started(error: JailError, result: &mut ResultReport) -> Result<Outcome, Failure> {
    let outcome = match &error {
        JailError::ProgramNotFound { .. } | JailError::NotExecutable { .. } => Outcome::NotFound,
        _ => return Err(error.into()),
    };
    result.error = Some(crate::envelope::ErrorReport::from(&Failure::from(error)));
    Ok(outcome)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
