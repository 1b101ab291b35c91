//! Jobs: commands that belong to the machine instead of a session.

use serde::{Deserialize, Serialize};

use crate::message::Exit;

/// Limit on the input of a job per request.
pub const JOB_INPUT: usize = 64 * 1024;
/// Limit on the output per channel of a job per request.
pub const JOB_OUTPUT: usize = 256 * 1024;

/// Describes a job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct JobInfo {
    /// Job number, counting from 1 since the guest booted.
    pub id: u32,
    /// Program and arguments, truncated if very long.
    pub argv: Vec<Vec<u8>>,
    /// Start time by the guest's clock, in nanoseconds since the epoch.
    pub started_unix_nanos: u64,
    /// Whether the job has not ended yet.
    pub running: bool,
    /// Exit status. `None` while the job runs, or if the kernel did not report it.
    pub exit: Option<Exit>,
    /// State of standard output.
    pub stdout: JobStream,
    /// State of standard error.
    pub stderr: JobStream,
    /// Whether standard input is open.
    pub stdin_open: bool,
}

/// Which part of an output is kept, as byte offsets since the job's start.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct JobStream {
    /// Offset of the first byte that is kept.
    pub first: u64,
    /// Number of bytes written so far.
    pub end: u64,
}

/// Requests part of a job's output.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct JobRead {
    /// The job number.
    pub id: u32,
    /// First byte of standard output to return.
    pub stdout_from: u64,
    /// First byte of standard error to return.
    pub stderr_from: u64,
    /// Maximum number of bytes per channel, at most [`JOB_OUTPUT`].
    pub max: u32,
    /// The event to wait for.
    pub wait: JobWait,
    /// How long to wait, in milliseconds.
    pub wait_ms: u32,
}

/// What a read of job output waits for.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum JobWait {
    /// Return immediately.
    #[default]
    No,
    /// Output beyond the requested offsets, or the job's exit.
    Output,
    /// The job's exit.
    Exit,
}
