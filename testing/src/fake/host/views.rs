//! Workspaces and snapshots as the host shows them.

use agentiso_core::action::{Accel, State};
use agentiso_core::ports::host::{ForkedFrom, SnapshotView, WorkspaceView};
use agentiso_core::{Failure, SnapshotName, WorkspaceId};
use agentiso_meta::{MetaError, Read, Snapshot, Workspace, WorkspaceState};

use super::state::FakeHost;
use crate::fake::machine::locked;

impl FakeHost {
    pub(super) fn views(&self) -> Result<Vec<WorkspaceView>, Failure> {
        let workspaces = self.inner.meta.read(|read| {
            let named = |workspace: Workspace| Ok((fork_point(read, &workspace)?, workspace));
            read.workspaces()?.into_iter().map(named).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(workspaces.into_iter().map(|(snapshot, workspace)| self.view_of(&workspace, snapshot)).collect())
    }

    pub(super) fn view(&self, id: WorkspaceId) -> Result<WorkspaceView, Failure> {
        let (snapshot, workspace) = self.inner.meta.read(|read| {
            let workspace = read.workspace(id)?;
            Ok((fork_point(read, &workspace)?, workspace))
        })?;
        Ok(self.view_of(&workspace, snapshot))
    }

    /// A workspace as its row says. What was just recorded is not read again: that could fail.
    pub(super) fn view_of(&self, workspace: &Workspace, snapshot: Option<SnapshotName>) -> WorkspaceView {
        let machine = self.running(workspace.id).filter(|_| workspace.machine().is_some());
        let stop_reason = match &workspace.state {
            WorkspaceState::Stopped { reason } => reason.clone(),
            WorkspaceState::Running { .. } if machine.is_none() => Some(self.reason_of_end(workspace)),
            WorkspaceState::Running { .. } => None,
        };
        let forked_from = workspace.lineage.as_ref().map(|lineage| ForkedFrom {
            id: lineage.workspace,
            name: lineage.name.clone(),
            snapshot,
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
            accel: machine.as_ref().map(|_| Accel::Tcg),
            from_pool: workspace.from_pool,
            forked_from,
            pid: machine.map(|machine| machine.pid),
            limits: None,
            network: workspace.network.clone(),
        }
    }

    /// Why the machine of a workspace ended, if it has: what it said, or, once that was noted, what was noted.
    pub(super) fn last_words(&self, id: WorkspaceId) -> Option<String> {
        let workspace = self.inner.meta.read(|read| read.workspace(id)).ok()?;
        if let WorkspaceState::Stopped { reason } = workspace.state {
            return reason;
        }
        let machine = locked(&self.inner.machines).get(&id).cloned();
        machine.and_then(|machine| machine.end_reason()).filter(|reason| !reason.is_empty())
    }

    pub(super) fn reason_of_end(&self, workspace: &Workspace) -> String {
        let words = self.last_words(workspace.id).map(|words| format!("; {words}"));
        format!("its machine ended unexpectedly{}", words.unwrap_or_default())
    }

    pub(super) fn snapshot_views(&self, id: WorkspaceId) -> Result<Vec<SnapshotView>, Failure> {
        let (workspace, snapshots) = self.inner.meta.read(|read| {
            let workspace = read.workspace(id)?;
            let snapshots = read.snapshots(workspace.id)?;
            Ok((workspace, snapshots))
        })?;
        snapshots.iter().map(|snapshot| self.snapshot_view(&workspace, snapshot, &snapshots)).collect()
    }

    fn snapshot_view(
        &self,
        workspace: &Workspace,
        snapshot: &Snapshot,
        all: &[Snapshot],
    ) -> Result<SnapshotView, Failure> {
        let parent = snapshot.parent.and_then(|id| all.iter().find(|other| other.id == id));
        let bytes = self.files(snapshot.disk)?.bytes();
        Ok(SnapshotView {
            id: snapshot.id,
            name: snapshot.name.clone(),
            kind: snapshot.kind,
            description: snapshot.description.clone(),
            parent: parent.map(|parent| parent.name.clone()),
            created: snapshot.created,
            memory: snapshot.memory.is_some(),
            current: workspace.position == Some(snapshot.id),
            used_bytes: bytes,
            referenced_bytes: bytes,
            forks: self.forks_needing(snapshot)?,
            damage: None,
        })
    }
}

/// The snapshot a workspace was forked from, if it was one.
fn fork_point(read: &Read<'_>, workspace: &Workspace) -> Result<Option<SnapshotName>, MetaError> {
    let snapshot = workspace.lineage.as_ref().and_then(|lineage| lineage.snapshot);
    snapshot.map(|id| Ok(read.snapshot(id)?.name)).transpose()
}
