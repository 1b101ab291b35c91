//! Workspaces and snapshots as users see them.

use agentiso_core::action::State;
use agentiso_core::ports::DiskUsage;
use agentiso_core::{Failure, ImageName, Resources, SnapshotId, SnapshotName, WorkspaceId, WorkspaceName};
use agentiso_meta::{MetaError, Read, Snapshot, Workspace, WorkspaceState};
use agentiso_vmm::{Accel, Limits};
use jiff::Timestamp;
use serde::Serialize;

use super::Workspaces;
use super::machine::MachineState;

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
    pub limits: Option<Limits>,
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

impl WorkspaceView {
    pub(crate) fn of(workspace: &Workspace, machine: Option<&MachineState>) -> Self {
        let stop_reason = match &workspace.state {
            WorkspaceState::Stopped { reason } => reason.clone(),
            WorkspaceState::Running { .. } => None,
        };
        let forked_from = workspace.lineage.as_ref().map(|lineage| ForkedFrom {
            id: lineage.workspace,
            name: lineage.name.clone(),
            snapshot: None,
            at: lineage.forked_at,
            depth: lineage.depth,
        });
        Self {
            id: workspace.id,
            name: workspace.name.clone(),
            state: if machine.is_some() { State::Running } else { State::Stopped },
            stop_reason,
            image: workspace.image.clone(),
            resources: workspace.resources,
            created: workspace.created,
            tier: workspace.tier.clone(),
            accel: machine.map(|machine| machine.record.hardware.accel),
            from_pool: workspace.from_pool,
            forked_from,
            pid: machine.map(|machine| machine.record.pid),
            limits: None,
        }
    }
}

impl Workspaces {
    /// All workspaces, oldest first.
    pub fn list(&self) -> Result<Vec<WorkspaceView>, Failure> {
        let workspaces = self.meta.read(|read| {
            let named = |workspace: Workspace| Ok((fork_point(read, &workspace)?, workspace));
            read.workspaces()?.into_iter().map(named).collect::<Result<Vec<_>, _>>()
        })?;
        workspaces.into_iter().map(|(snapshot, workspace)| self.view(&workspace, snapshot)).collect()
    }

    /// One workspace.
    pub fn info(&self, id: WorkspaceId) -> Result<WorkspaceView, Failure> {
        let (snapshot, workspace) = self.meta.read(|read| {
            let workspace = read.workspace(id)?;
            Ok((fork_point(read, &workspace)?, workspace))
        })?;
        let mut view = self.view(&workspace, snapshot)?;
        if view.pid.is_some() {
            view.limits = self.machine_of(&workspace)?.and_then(|machine| machine.record.limits());
        }
        Ok(view)
    }

    /// A workspace as it is: one whose machine has ended is noted as stopped.
    fn view(&self, workspace: &Workspace, snapshot: Option<SnapshotName>) -> Result<WorkspaceView, Failure> {
        let machine = self.machine_of(workspace)?;
        let mut view = match &machine {
            Some(state) if !state.record.is_alive() => {
                // Nobody is to be sent there from now on, even if its connections are still to break.
                self.held.forget_ended(workspace.id, state.record.pid);
                let mut view = WorkspaceView::of(workspace, None);
                view.stop_reason = Some(self.reason_of_end(workspace));
                view
            }
            alive => WorkspaceView::of(workspace, alive.as_ref()),
        };
        if let Some(from) = &mut view.forked_from {
            from.snapshot = snapshot;
        }
        Ok(view)
    }

    /// The snapshots of a workspace, oldest first.
    pub fn snapshots(&self, id: WorkspaceId) -> Result<Vec<SnapshotView>, Failure> {
        let (workspace, snapshots) = self.meta.read(|read| {
            let workspace = read.workspace(id)?;
            let snapshots = read.snapshots(workspace.id)?;
            Ok((workspace, snapshots))
        })?;
        let disks = snapshots.iter().map(|snapshot| {
            let children = self.meta.read(|read| read.children_of(snapshot.disk))?;
            let children = children.iter().map(|child| self.installation.disk_path(child.id)).collect();
            Ok((self.installation.disk_path(snapshot.disk), children))
        });
        let usage = self.installation.disks().usage(&disks.collect::<Result<Vec<_>, Failure>>()?)?;
        let view = |(snapshot, usage)| self.snapshot_view(&workspace, snapshot, &snapshots, usage);
        snapshots.iter().zip(usage).map(view).collect()
    }

    /// Bytes a workspace's own disk takes on the host, without what it stands on.
    pub fn disk_used_bytes(&self, workspace: &Workspace) -> Result<u64, Failure> {
        Ok(self.installation.disks().own_bytes(&self.installation.disk_path(workspace.disk))?)
    }

    fn snapshot_view(
        &self,
        workspace: &Workspace,
        snapshot: &Snapshot,
        all: &[Snapshot],
        disk: DiskUsage,
    ) -> Result<SnapshotView, Failure> {
        let (mut used_bytes, mut referenced_bytes) = (disk.freed_by_removal, disk.referenced);
        let mut damage = None;
        if let Some(memory) = snapshot.memory {
            let users = self.meta.read(|read| read.memories_using(memory))?;
            let sizes = || -> std::io::Result<(u64, u64)> {
                let others = users.into_iter().filter(|&user| user != memory);
                let others = others.map(|user| self.memory().open(user).map(|image| image.map));
                let others: Vec<_> = others.collect::<Result<_, _>>()?;
                let own = self.memory().freed_by_removal(memory, &others)?;
                Ok((own, self.memory().open(memory)?.referenced_bytes()))
            };
            // One damaged snapshot must not hide the others.
            match sizes() {
                Ok((own, all)) => {
                    used_bytes += own;
                    referenced_bytes += all;
                }
                Err(error) => damage = Some(agentiso_core::chain(&error)),
            }
        }
        let parent = snapshot.parent.and_then(|id| all.iter().find(|other| other.id == id));
        Ok(SnapshotView {
            id: snapshot.id,
            name: snapshot.name.clone(),
            description: snapshot.description.clone(),
            parent: parent.map(|parent| parent.name.clone()),
            created: snapshot.created,
            memory: snapshot.memory.is_some(),
            current: workspace.position == Some(snapshot.id),
            used_bytes,
            referenced_bytes,
            forks: self.forks_needing(snapshot)?,
            damage,
        })
    }
}

/// The snapshot a workspace was forked from, if it was one.
fn fork_point(read: &Read<'_>, workspace: &Workspace) -> Result<Option<SnapshotName>, MetaError> {
    let snapshot = workspace.lineage.as_ref().and_then(|lineage| lineage.snapshot);
    snapshot.map(|id| Ok(read.snapshot(id)?.name)).transpose()
}
