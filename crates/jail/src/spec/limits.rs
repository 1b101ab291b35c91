//! Limits of a sandbox.

use serde::{Deserialize, Serialize};

/// Limits of all commands of a sandbox together, unless a field says otherwise. `None` means no limit of the sandbox's own.
/// The wall time is a property of a command ([`crate::Command::timeout`]).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of memory. Without a memory cgroup each process is limited to it by itself.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u32>,
    /// Processor time per wall time, in thousandths of a processor. Needs a cpu cgroup.
    pub cpu_milli: Option<u32>,
    /// Seconds of processor time of each process.
    pub cpu_seconds: Option<u64>,
    /// Bytes of the largest file a process can write.
    pub file_size: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: None,
            processes: Some(Self::DEFAULT_PROCESSES),
            cpu_milli: None,
            cpu_seconds: None,
            file_size: None,
            open_files: Some(Self::DEFAULT_OPEN_FILES),
        }
    }
}

impl Limits {
    /// The most processes and threads unless given: enough for a parallel build, and little for the host.
    pub const DEFAULT_PROCESSES: u32 = 4096;
    /// The most open files of a process unless given.
    pub const DEFAULT_OPEN_FILES: u64 = 65536;
}
