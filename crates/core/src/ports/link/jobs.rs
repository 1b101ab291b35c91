//! Jobs: commands that outlive the call that started them.

use super::JobInfo;

/// The output of a job at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobOutput {
    /// The job at that moment.
    pub info: JobInfo,
    /// Offset of [`Self::stdout`]: later than requested if the older output is no longer kept.
    pub stdout_from: u64,
    /// Bytes of standard output.
    pub stdout: Vec<u8>,
    /// Offset of [`Self::stderr`].
    pub stderr_from: u64,
    /// Bytes of standard error.
    pub stderr: Vec<u8>,
}
