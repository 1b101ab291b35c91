//! Requests to the host.

use crate::action::SnapshotKind;
use crate::{
    ImageName, NetworkRules, Resources, SessionId, SnapshotId, SnapshotName, WorkspaceId, WorkspaceName,
};

/// A workspace to create.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// Its name; one is generated if absent.
    pub name: Option<WorkspaceName>,
    /// Its image.
    pub image: ImageName,
    /// Its size.
    pub resources: Resources,
    /// Boots it instead of cloning a template or taking one from the pool.
    pub cold: bool,
    /// Takes a ready machine from the pool if one fits.
    pub pool: bool,
    /// The session it belongs to from the instant it exists: a workspace without an owner is free to take.
    pub owner: Option<SessionId>,
    /// Records, in the transaction that adds the workspace, that it exists for one command:
    /// [`WorkspaceRecords::one_shots`](crate::ports::records::WorkspaceRecords::one_shots) lists it.
    pub one_shot: bool,
    /// What it may reach.
    pub network: NetworkRules,
}

/// A workspace to remove.
#[derive(Clone, Copy, Debug)]
pub struct RemoveRequest {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Removes it even if it runs.
    pub force: bool,
}

/// A snapshot to take.
#[derive(Clone, Debug)]
pub struct SnapshotRequest {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The snapshot's name.
    pub name: SnapshotName,
    /// Why it is taken.
    pub kind: SnapshotKind,
    /// The user's description.
    pub description: String,
    /// Includes memory, so that running processes are restored too.
    pub memory: bool,
}

/// What to fork.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ForkSource {
    /// A workspace as it is now.
    Now,
    /// One of its snapshots.
    Snapshot {
        /// Its id.
        id: SnapshotId,
        /// Without its memory.
        disk_only: bool,
    },
}

/// Forks to make.
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The state of it to fork.
    pub source: ForkSource,
    /// The name of the fork, or the prefix of the names of several, which are numbered from 1.
    pub name: Option<WorkspaceName>,
    /// The number of forks.
    pub count: u32,
    /// Makes none if one of them cannot be made.
    pub all_or_nothing: bool,
    /// The session the forks belong to from the instant they exist.
    pub owner: Option<SessionId>,
    /// What the forks may reach. Default: the same as the workspace.
    pub network: Option<NetworkRules>,
}

/// Two points to compare.
#[derive(Clone, Debug)]
pub struct CompareRequest {
    /// The first point, normally the earlier one.
    pub before: Point,
    /// The second point.
    pub after: Point,
    /// Only this path and what is below it.
    pub under: Option<String>,
}

/// A point in the history of a workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Point {
    /// A snapshot.
    Snapshot(SnapshotId),
    /// A workspace as it is now.
    Now(WorkspaceId),
}
