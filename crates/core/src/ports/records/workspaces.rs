//! Records of workspaces, their snapshots and their settings.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::action::SnapshotKind;
use crate::{
    DiskId, Failure, ImageName, MemoryId, NetworkState, Resources, SessionId, SnapshotId, SnapshotName,
    WorkspaceId, WorkspaceName,
};

/// A workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Workspace {
    /// Its permanent id.
    pub id: WorkspaceId,
    /// Its unique name.
    pub name: WorkspaceName,
    /// The image it was created from.
    pub image: ImageName,
    /// Identifies the version of the image.
    pub image_identity: String,
    /// CPUs, memory and disk.
    pub resources: Resources,
    /// Creation time, to the microsecond.
    pub created: Timestamp,
    /// Whether it runs.
    pub state: WorkspaceState,
    /// The disk it writes to, which no other workspace uses.
    pub disk: DiskId,
    /// The snapshot it was last at, which is the parent of its next one.
    pub position: Option<SnapshotId>,
    /// The source of a fork.
    pub lineage: Option<Lineage>,
    /// Whether it came from the pool.
    pub from_pool: bool,
    /// How its machine was started.
    pub tier: String,
    /// What it may reach, and its address, which no other workspace has.
    pub network: NetworkState,
}

/// Whether a workspace runs.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceState {
    /// It has a machine.
    Running {
        /// The description of the machine, which only the host understands.
        machine: Value,
    },
    /// It has no machine.
    Stopped {
        /// Why it stopped, if that was not requested.
        reason: Option<String>,
    },
}

/// The source of a fork.
#[derive(Clone, Debug, PartialEq)]
pub struct Lineage {
    /// The source, which may no longer exist.
    pub workspace: WorkspaceId,
    /// The name of the source at the time of the fork.
    pub name: WorkspaceName,
    /// The snapshot it was forked from; `None` if a running workspace was forked or the snapshot no longer exists.
    pub snapshot: Option<SnapshotId>,
    /// Time of the fork, to the microsecond.
    pub forked_at: Timestamp,
    /// Number of forks from the first workspace of the line to this one: at least 1.
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

    /// Number of forks from the first workspace of the line to this one; 0 if it is not a fork.
    pub fn depth(&self) -> u32 {
        self.lineage.as_ref().map_or(0, |lineage| lineage.depth)
    }
}

/// A snapshot of a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Its permanent id.
    pub id: SnapshotId,
    /// The workspace it belongs to.
    pub workspace: WorkspaceId,
    /// Its name, unique in its workspace.
    pub name: SnapshotName,
    /// Why it was taken.
    pub kind: SnapshotKind,
    /// The user's description.
    pub description: String,
    /// The snapshot that was the position of the workspace when it was taken.
    pub parent: Option<SnapshotId>,
    /// Creation time, to the microsecond.
    pub created: Timestamp,
    /// The frozen disk.
    pub disk: DiskId,
    /// The memory image, if it includes memory.
    pub memory: Option<MemoryId>,
}

/// The settings of a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The session that owns it.
    pub owner: Option<SessionId>,
    /// Its labels, as [`check_labels`](crate::check_labels) accepts them.
    pub labels: BTreeMap<String, String>,
    /// When it is destroyed, to the microsecond.
    pub expires_at: Option<Timestamp>,
    /// How long it may be idle before it is stopped. Stored in seconds, rounded up.
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

/// The resources that workspaces use. Machines in the pool do not count.
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
