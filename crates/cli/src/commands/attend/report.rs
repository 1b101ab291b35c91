//! What `--json` says about a command.

use agentiso_core::Capture;
use agentiso_runtime::guest::{Exit, ExitStatus};
use serde::Serialize;

use super::exit_code;

/// How a command ended and what it printed.
#[derive(Serialize)]
pub struct CommandReport {
    exit_code: u8,
    signal: Option<i32>,
    timed_out: bool,
    stdout: String,
    stderr: String,
    stdout_bytes: u64,
    stderr_bytes: u64,
    truncated: bool,
    wall_ms: f64,
    user_ms: f64,
    system_ms: f64,
    max_rss_kib: u64,
}

impl CommandReport {
    /// Puts it all together.
    pub fn new(exit: &Exit, captured: &[Capture; 2]) -> Self {
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
        }
    }
}
