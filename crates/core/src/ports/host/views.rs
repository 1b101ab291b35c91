//! Workspaces and snapshots as a host shows them.

use jiff::Timestamp;
use serde::Serialize;

use crate::action::{Accel, MachineLimits, SnapshotKind, State};
use crate::{ImageName, NetworkState, Resources, SnapshotId, SnapshotName, WorkspaceId, WorkspaceName};

/// A workspace.
#[derive(Clone, Debug, Serialize)]
pub struct WorkspaceView {
    /// Its id.
    pub id: WorkspaceId,
    /// Its name.
    pub name: WorkspaceName,
    /// `running` or `stopped`.
    pub state: State,
    /// Why it stopped, if that was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Its image.
    pub image: ImageName,
    /// Its size.
    #[serde(flatten)]
    pub resources: Resources,
    /// Creation time.
    pub created: Timestamp,
    /// How its machine was started.
    pub tier: String,
    /// How its instructions run, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accel: Option<Accel>,
    /// Whether it was taken from the pool.
    pub from_pool: bool,
    /// The source of a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// Process id of its QEMU, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The limits of its machine, while it runs and has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<MachineLimits>,
    /// What it may reach, and its address.
    pub network: NetworkState,
}

/// Where a fork came from.
#[derive(Clone, Debug, Serialize)]
pub struct ForkedFrom {
    /// The source's id.
    pub id: WorkspaceId,
    /// The name of the source at that time.
    pub name: WorkspaceName,
    /// The snapshot, if it was one and is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotName>,
    /// Time of the fork.
    pub at: Timestamp,
    /// Number of forks from the first workspace of the line to this one.
    pub depth: u32,
}

/// A snapshot.
#[derive(Clone, Debug, Serialize)]
pub struct SnapshotView {
    /// Its id.
    pub id: SnapshotId,
    /// Its name.
    pub name: SnapshotName,
    /// Why it was taken.
    pub kind: SnapshotKind,
    /// The user's description.
    pub description: String,
    /// The snapshot that was the position of its workspace when it was taken.
    pub parent: Option<SnapshotName>,
    /// When it was taken.
    pub created: Timestamp,
    /// Whether it has memory.
    pub memory: bool,
    /// Whether it is the current position of its workspace.
    pub current: bool,
    /// Bytes that removing it would free.
    pub used_bytes: u64,
    /// Bytes of disk and memory it refers to, shared or not.
    pub referenced_bytes: u64,
    /// Workspaces whose disks need it.
    pub forks: Vec<String>,
    /// Why its memory cannot be used, if it cannot. Its sizes are then those of its disk.
    pub damage: Option<String>,
}
