//! What is known of workspaces, and what was set for them.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    DiskId, Failure, ImageName, MemoryId, Resources, SessionId, SnapshotId, SnapshotName, WorkspaceId,
    WorkspaceName,
};

/// A workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Workspace {
    /// Who it is, for ever.
    pub id: WorkspaceId,
    /// What its user calls it. No two have the same.
    pub name: WorkspaceName,
    /// The image it was made of.
    pub image: ImageName,
    /// Which version of the image that was.
    pub image_identity: String,
    /// How large it is.
    pub resources: Resources,
    /// When it was made, to the microsecond.
    pub created: Timestamp,
    /// Whether it runs.
    pub state: WorkspaceState,
    /// The disk it writes to. No two share one.
    pub disk: DiskId,
    /// The snapshot it stands on: the parent of its next one.
    pub position: Option<SnapshotId>,
    /// What it is a fork of.
    pub lineage: Option<Lineage>,
    /// Whether it came from the pool.
    pub from_pool: bool,
    /// How its machine was started.
    pub tier: String,
}

/// Whether a workspace runs.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceState {
    /// It has a machine.
    Running {
        /// The machine, in its owner's words.
        machine: Value,
    },
    /// It has none.
    Stopped {
        /// Why it stopped, unless it was asked to.
        reason: Option<String>,
    },
}

/// Where a fork came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Lineage {
    /// The source, which may be gone.
    pub workspace: WorkspaceId,
    /// What the source was called when it was forked.
    pub name: WorkspaceName,
    /// The snapshot it was forked from: none if the source was forked as it ran, or the snapshot is gone.
    pub snapshot: Option<SnapshotId>,
    /// When, to the microsecond.
    pub forked_at: Timestamp,
    /// How many forks lie between it and a workspace that is none: at least 1.
    pub depth: u32,
}

impl Workspace {
    /// Its machine, if it runs.
    pub fn machine(&self) -> Option<&Value> {
        match &self.state {
            WorkspaceState::Running { machine } => Some(machine),
            WorkspaceState::Stopped { .. } => None,
        }
    }

    /// How many forks lie between it and a workspace that is none.
    pub fn depth(&self) -> u32 {
        self.lineage.as_ref().map_or(0, |lineage| lineage.depth)
    }
}

/// A moment of a workspace that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Which one it is.
    pub id: SnapshotId,
    /// Whose it is.
    pub workspace: WorkspaceId,
    /// What it is called; unique in its workspace.
    pub name: SnapshotName,
    /// What its user said about it.
    pub description: String,
    /// The snapshot the workspace stood on when it was made.
    pub parent: Option<SnapshotId>,
    /// When it was made, to the microsecond.
    pub created: Timestamp,
    /// The disk as it was then: frozen.
    pub disk: DiskId,
    /// The memory as it was then, if that was kept.
    pub memory: Option<MemoryId>,
}

/// What was set for a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whose it is.
    pub owner: Option<SessionId>,
    /// What its user noted on it, as [`check_labels`](crate::check_labels) allows.
    pub labels: BTreeMap<String, String>,
    /// When its time is over, to the microsecond.
    pub expires_at: Option<Timestamp>,
    /// After how long without use it is to be stopped. Kept in seconds: what is left of one counts as a whole.
    pub idle_stop: Option<Duration>,
    /// When it was last used, to the microsecond: when it was made, unless it was used since.
    pub last_used: Timestamp,
    /// The snapshot it was suspended to.
    pub suspended: Option<SnapshotId>,
    /// Whether it is started when the daemon starts, unless it was stopped on purpose.
    pub restart: bool,
    /// Whether it was stopped on purpose.
    pub stay_stopped: bool,
    /// Its size from its next start on, if that differs from the size it has.
    pub next_size: Option<NextSize>,
}

/// The size a workspace has from its next start on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NextSize {
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u32,
}

/// How much workspaces use. Machines in the pool are nobody's and do not count.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// How many workspaces there are.
    pub workspaces: u64,
    /// The memory of all of them, in MiB.
    pub memory_mb: u64,
    /// The memory of those that run, in MiB.
    pub running_memory_mb: u64,
    /// The disks of all of them, in GiB, as large as they may grow.
    pub disk_gb: u64,
    /// How many snapshots they have.
    pub snapshots: u64,
}

/// A change of a workspace's settings. It runs inside a transaction, so it must not block.
pub type SettingsChange = Box<dyn FnOnce(&mut Settings) + Send>;

/// Workspaces, their snapshots and their settings. The host writes workspaces and snapshots; the engine only reads them.
#[async_trait]
pub trait WorkspaceRecords: Send + Sync {
    /// A workspace by its id; fails with `workspace_not_found` if there is none.
    async fn workspace(&self, id: WorkspaceId) -> Result<Workspace, Failure>;

    /// The workspace that a user's reference means: its id, the beginning of its short id, or its name. Fails with
    /// `workspace_not_found` if there is none and with `invalid_argument` if the reference is ambiguous.
    async fn find_workspace(&self, asked: &str) -> Result<Workspace, Failure>;

    /// All workspaces, oldest first.
    async fn workspaces(&self) -> Result<Vec<Workspace>, Failure>;

    /// The workspaces that were created as one-shots (see [`CreateRequest`](crate::ports::host::CreateRequest)).
    async fn one_shots(&self) -> Result<Vec<WorkspaceId>, Failure>;

    /// The snapshot of a workspace that has a name; fails with `snapshot_not_found` if there is none.
    async fn find_snapshot(&self, workspace: WorkspaceId, name: &str) -> Result<Snapshot, Failure>;

    /// The snapshots of a workspace, oldest first.
    async fn snapshots(&self, workspace: WorkspaceId) -> Result<Vec<Snapshot>, Failure>;

    /// The snapshot that a workspace is suspended to, if it is suspended.
    async fn suspended_to(&self, workspace: WorkspaceId) -> Result<Option<Snapshot>, Failure>;

    /// The settings of a workspace.
    async fn settings(&self, workspace: WorkspaceId) -> Result<Settings, Failure>;

    /// The settings of every workspace.
    async fn all_settings(&self) -> Result<BTreeMap<WorkspaceId, Settings>, Failure>;

    /// Changes the settings of a workspace and returns them.
    async fn change_settings(
        &self,
        workspace: WorkspaceId,
        change: SettingsChange,
    ) -> Result<Settings, Failure>;

    /// Gives a workspace its next size, which is then no longer pending, and returns its settings.
    async fn apply_size(&self, workspace: WorkspaceId, size: NextSize) -> Result<Settings, Failure>;

    /// How much the workspaces of a session use, or all of them together.
    async fn usage(&self, owner: Option<SessionId>) -> Result<Usage, Failure>;
}
