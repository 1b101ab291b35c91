//! Workspaces and snapshots as users see them.

use agentiso_blocking::in_place;
use agentiso_core::action::{MachineLimits, SnapshotKind, State};
use agentiso_core::ports::DiskUsage;
use agentiso_core::{Failure, SnapshotName, WorkspaceId};
use agentiso_meta::{MetaError, Read, Snapshot, Workspace, WorkspaceState};
use agentiso_vmm::Limits;

use super::machine::MachineState;
use super::{ForkedFrom, SnapshotView, WorkspaceView, Workspaces};

/// A workspace whose machine is in this state.
pub(crate) fn view_of(workspace: &Workspace, machine: Option<&MachineState>) -> WorkspaceView {
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
    WorkspaceView {
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
        network: workspace.network.clone(),
    }
}

fn machine_limits(limits: &Limits) -> MachineLimits {
    MachineLimits {
        memory_bytes: limits.memory_bytes,
        swap_bytes: limits.swap_bytes,
        cpu_percent: limits.cpu_percent,
        tasks: limits.tasks,
        read_bytes_per_sec: limits.io.as_ref().and_then(|io| io.read),
        write_bytes_per_sec: limits.io.as_ref().and_then(|io| io.write),
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
            view.limits = self
                .machine_of(&workspace)?
                .and_then(|machine| machine.record.limits())
                .map(|limits| machine_limits(&limits));
        }
        Ok(view)
    }

    /// A workspace with its current state: if its machine has ended it is shown as stopped.
    fn view(&self, workspace: &Workspace, snapshot: Option<SnapshotName>) -> Result<WorkspaceView, Failure> {
        let machine = self.machine_of(workspace)?;
        let mut view = match &machine {
            Some(state) if !state.record.is_alive() => {
                // Its connections may not be closed yet, but must not be used any more.
                self.connections.forget_ended(workspace.id, state.record.pid);
                let mut view = view_of(workspace, None);
                view.stop_reason = Some(self.reason_of_end(workspace));
                view
            }
            alive => view_of(workspace, alive.as_ref()),
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

    /// Bytes that a workspace's own disk takes on the host, without its backing files.
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
            match in_place(sizes) {
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
            kind: snapshot.kind,
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

/// The snapshot that a workspace was forked from, if any.
fn fork_point(read: &Read<'_>, workspace: &Workspace) -> Result<Option<SnapshotName>, MetaError> {
    let snapshot = workspace.lineage.as_ref().and_then(|lineage| lineage.snapshot);
    let snapshot = snapshot.map(|id| read.snapshot(id)).transpose()?;
    // The present state of a suspended workspace is a snapshot that has no name of its user's.
    Ok(snapshot.filter(|snapshot| snapshot.kind != SnapshotKind::Suspend).map(|snapshot| snapshot.name))
}
