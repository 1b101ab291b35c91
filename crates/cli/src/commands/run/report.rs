//! Exit codes, and what `--json` says about a run.

use std::time::Duration;

use agentiso_core::{Capture, ImageName, Resources};
use agentiso_runtime::guest::{Exit, ExitStatus};
use agentiso_runtime::{Accel, Running, StartRequest, Tier};
use serde::Serialize;

/// Exit code when agentiso itself failed.
pub const FAILED: u8 = 125;
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;
const TIMED_OUT: u8 = 124;
const SIGNALLED: u8 = 128;

/// The exit code of a command, as shells count it.
pub fn exit_code(exit: &Exit) -> u8 {
    match exit.status {
        _ if exit.timed_out => TIMED_OUT,
        ExitStatus::Code(code) => u8::try_from(code & 0xff).unwrap_or(FAILED),
        ExitStatus::Signal(number) => signal_code(number),
    }
}

/// The exit code of what a signal ended.
pub fn signal_code(number: i32) -> u8 {
    SIGNALLED.saturating_add(u8::try_from(number).unwrap_or(0))
}

/// What a run came to.
#[derive(Serialize)]
pub struct Report {
    exit_code: u8,
    signal: Option<i32>,
    timed_out: bool,
    stdout: String,
    stderr: String,
    stdout_bytes: u64,
    stderr_bytes: u64,
    truncated: bool,
    start_ms: f64,
    wall_ms: f64,
    user_ms: f64,
    system_ms: f64,
    max_rss_kib: u64,
    tier: Tier,
    accel: Accel,
    image: ImageName,
    resources: Resources,
}

impl Report {
    /// A report on a machine that was just started.
    pub fn new(request: &StartRequest, running: &Running, start: Duration) -> Self {
        Self {
            exit_code: 0,
            signal: None,
            timed_out: false,
            stdout: String::new(),
            stderr: String::new(),
            stdout_bytes: 0,
            stderr_bytes: 0,
            truncated: false,
            start_ms: start.as_secs_f64() * 1e3,
            wall_ms: 0.0,
            user_ms: 0.0,
            system_ms: 0.0,
            max_rss_kib: 0,
            tier: running.tier,
            accel: running.accel,
            image: request.image.clone(),
            resources: request.resources,
        }
    }

    /// The report with how the command ended and what it printed.
    pub fn finish(self, exit: &Exit, captured: &[Capture; 2]) -> Self {
        let [stdout, stderr] = captured;
        let ms = |us: u64| us as f64 / 1e3;
        Self {
            exit_code: exit_code(exit),
            signal: if let ExitStatus::Signal(number) = exit.status { Some(number) } else { None },
            timed_out: exit.timed_out,
            stdout: stdout.text(),
            stderr: stderr.text(),
            stdout_bytes: stdout.total(),
            stderr_bytes: stderr.total(),
            truncated: stdout.omitted() + stderr.omitted() > 0,
            wall_ms: ms(exit.usage.wall_us),
            user_ms: ms(exit.usage.user_us),
            system_ms: ms(exit.usage.system_us),
            max_rss_kib: exit.usage.max_rss_kib,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(status: ExitStatus, timed_out: bool) -> Exit {
        Exit { status, timed_out, cancelled: false, usage: Default::default() }
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(exit_code(&exit(ExitStatus::Code(0), false)), 0);
        assert_eq!(exit_code(&exit(ExitStatus::Code(42), false)), 42);
        assert_eq!(exit_code(&exit(ExitStatus::Signal(9), false)), 137);
        assert_eq!(exit_code(&exit(ExitStatus::Signal(9), true)), 124);
    }
}
