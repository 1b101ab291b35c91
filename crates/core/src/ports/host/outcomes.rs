//! Results of calls to the host.

use std::time::Duration;

use super::WorkspaceView;
use crate::ports::link::HookReport;
use crate::ports::records::{Snapshot, Workspace};
use crate::{Failure, WorkspaceName};

/// A snapshot that was taken.
#[derive(Clone, Debug)]
pub struct Snapshotted {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// How long the machine was paused.
    pub pause: Duration,
    /// What its memory took, if it has memory.
    pub memory: Option<MemoryWritten>,
}

/// How much was written for a memory image.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MemoryWritten {
    /// Pages that differ from the base.
    pub pages: u64,
    /// Bytes written to files.
    pub bytes: u64,
}

/// A workspace that was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The workspace.
    pub workspace: WorkspaceView,
    /// Whether its memory was restored too.
    pub memory: bool,
    /// The time from stopping the old machine to the new one running.
    pub away: Duration,
    /// Results of its hooks.
    pub hooks: Vec<HookReport>,
}

/// The result of one fork.
#[derive(Debug)]
pub struct Forked {
    /// Its name, or the one it would have had.
    pub name: WorkspaceName,
    /// The fork and the results of its hooks, or why it could not be made.
    pub result: Result<(WorkspaceView, Vec<HookReport>), Failure>,
}

/// The result of a fork request.
#[derive(Debug)]
pub struct ForkOutcome {
    /// Each fork.
    pub forks: Vec<Forked>,
    /// How long the source was paused.
    pub pause: Duration,
}

/// An archive that was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Exported {
    /// Its length.
    pub bytes: u64,
    /// The number of files, directories and links in it.
    pub files: u64,
}

/// The ends of a machine's logs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Logs {
    /// The serial console.
    pub console: String,
    /// QEMU's own messages.
    pub qemu: String,
}

/// The state of the pool of ready machines.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PoolState {
    /// Machines that are ready.
    pub ready: usize,
    /// Number of machines that should be ready.
    pub wanted: usize,
    /// The reason for that number, for display.
    pub why: String,
}

/// A machine that ended without a request.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineEnded {
    /// The record of its workspace before the end was noted.
    pub workspace: Workspace,
    /// Why it ended, as far as that is known.
    pub reason: Option<String>,
}
