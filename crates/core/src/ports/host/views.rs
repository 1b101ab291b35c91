//! Workspaces and snapshots as a host shows them.

use jiff::Timestamp;
use serde::Serialize;

use crate::action::{Accel, MachineLimits, SnapshotKind, State};
use crate::{ImageName, Resources, SnapshotId, SnapshotName, WorkspaceId, WorkspaceName};

/// A workspace.
#[derive(Clone, Debug, Serialize)]
pub struct WorkspaceView {
    /// Its id.
    pub id: WorkspaceId,
    /// Its name.
    pub name: WorkspaceName,
    /// `running` or `stopped`.
    pub state: State,
    /// Why it stopped, unless it was asked to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Its image.
    pub image: ImageName,
    /// Its size.
    #[serde(flatten)]
    pub resources: Resources,
    /// When it was made.
    pub created: Timestamp,
    /// How its machine was started.
    pub tier: String,
    /// How its instructions run, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accel: Option<Accel>,
    /// Whether it was taken from the pool.
    pub from_pool: bool,
    /// What it is a fork of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// Process id of its QEMU, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What the host holds it to, while it runs and is held to anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<MachineLimits>,
}

/// Where a fork came from.
#[derive(Clone, Debug, Serialize)]
pub struct ForkedFrom {
    /// The source's id.
    pub id: WorkspaceId,
    /// What the source was called then.
    pub name: WorkspaceName,
    /// The snapshot, if it was one and is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotName>,
    /// When.
    pub at: Timestamp,
    /// How many forks lie between it and a workspace that is none.
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
    /// What it is for.
    pub description: String,
    /// The snapshot its workspace stood on when it was taken.
    pub parent: Option<SnapshotName>,
    /// When it was taken.
    pub created: Timestamp,
    /// Whether it has memory.
    pub memory: bool,
    /// Whether its workspace stands on it.
    pub current: bool,
    /// Bytes that removing it would free.
    pub used_bytes: u64,
    /// Bytes of disk and memory that it holds, its own or not.
    pub referenced_bytes: u64,
    /// Workspaces whose disks need it.
    pub forks: Vec<String>,
    /// Why its memory cannot be used, if it cannot. Its sizes are then those of its disk.
    pub damage: Option<String>,
}
