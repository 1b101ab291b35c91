//! Commands that belong to the machine and not to a session: what is told of them and asked about them.

use serde::{Deserialize, Serialize};

use crate::message::Exit;

/// The most a job's input takes at once.
pub const JOB_INPUT: usize = 64 * 1024;
/// The most of each of a job's outputs that is read at once.
pub const JOB_OUTPUT: usize = 256 * 1024;

/// About a job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct JobInfo {
    /// Its number; they count up from 1 since the guest booted.
    pub id: u32,
    /// Program and arguments; of very long ones only the beginning.
    pub argv: Vec<Vec<u8>>,
    /// When it was started by the guest's clock, nanoseconds since the epoch.
    pub started_unix_nanos: u64,
    /// It has not ended yet.
    pub running: bool,
    /// How it ended. Absent while it runs, or if the kernel never said.
    pub exit: Option<Exit>,
    /// Its standard output.
    pub stdout: JobStream,
    /// Its standard error.
    pub stderr: JobStream,
    /// Its standard input takes more.
    pub stdin_open: bool,
}

/// Which part of an output is kept, counted in bytes since the job's start.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct JobStream {
    /// The first byte that is kept.
    pub first: u64,
    /// The end of what was written so far.
    pub end: u64,
}

/// Asks for a job's output.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct JobRead {
    /// The job.
    pub id: u32,
    /// First byte of standard output.
    pub stdout_from: u64,
    /// First byte of standard error.
    pub stderr_from: u64,
    /// The most bytes of each; at most [`JOB_OUTPUT`] are sent.
    pub max: u32,
    /// What to wait for.
    pub wait: JobWait,
    /// How long to wait at most, in milliseconds.
    pub wait_ms: u32,
}

/// What reading a job's output waits for.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum JobWait {
    /// Nothing.
    #[default]
    No,
    /// Output beyond what was asked for so far, or the job's end.
    Output,
    /// The job's end.
    Exit,
}
