//! Workspaces as they are shown to callers.

use std::time::{Duration, Instant};

use agentiso_core::action::{
    ForkedFrom, Size, SnapshotBrief, SnapshotKind, State, Tier, WorkspaceBrief, WorkspaceDetails,
};
use agentiso_core::ports::host::WorkspaceView;
use agentiso_core::ports::records::{NextSize, Settings, Snapshot, Workspace};
use agentiso_core::{Failure, Resources};
use jiff::Timestamp;

use crate::command::Shell;
use crate::{Caller, Engine};

/// How long to wait for a machine's answer to which shell it has.
const SHELL_ANSWER: Duration = Duration::from_secs(2);

impl Engine {
    /// All workspaces, oldest first; `caller` decides which are owned.
    pub(crate) async fn briefs(&self, caller: Option<&Caller>) -> Result<Vec<WorkspaceBrief>, Failure> {
        let settings = self.records.all_settings().await?;
        let views = self.host.list().await?;
        let briefs = views.iter().map(|view| brief(view, settings.get(&view.id), caller));
        let Some(caller) = caller.filter(|caller| self.isolates(caller)) else { return Ok(briefs.collect()) };
        let owned = views.iter().zip(briefs).filter(|(_, brief)| brief.owned);
        let owner_of = |id| settings.get(&id).and_then(|settings| settings.owner);
        Ok(owned
            .map(|(view, brief)| match &view.forked_from {
                Some(from) if owner_of(from.id) != caller.session => without_source(brief),
                _ => brief,
            })
            .collect())
    }

    /// Whether the source of a fork is hidden from a caller because it belongs to another session.
    async fn hides_source(&self, view: &WorkspaceView, caller: &Caller) -> Result<bool, Failure> {
        let Some(from) = view.forked_from.as_ref().filter(|_| self.isolates(caller)) else {
            return Ok(false);
        };
        let settings = self.records.all_settings().await?;
        Ok(settings.get(&from.id).and_then(|settings| settings.owner) != caller.session)
    }

    pub(crate) async fn brief_of(
        &self,
        workspace: &Workspace,
        caller: &Caller,
    ) -> Result<WorkspaceBrief, Failure> {
        let settings = self.records.settings(workspace.id).await?;
        let view = self.host.info(workspace.id).await?;
        let brief = brief(&view, Some(&settings), Some(caller));
        Ok(if self.hides_source(&view, caller).await? { without_source(brief) } else { brief })
    }

    pub(crate) async fn details_of(
        &self,
        workspace: &Workspace,
        caller: &Caller,
    ) -> Result<WorkspaceDetails, Failure> {
        let view = self.host.info(workspace.id).await?;
        let settings = self.records.settings(workspace.id).await?;
        let snapshots = self.records.snapshots(workspace.id).await?;
        let port_forwards = self.shown_forwards(workspace.id).await?;
        let env_names = self.env_of(workspace.id, None).await?.names();
        let shell = self.shell_of(workspace, view.state == State::Running).await;
        let disk_used_bytes = self.host.disk_used_bytes(workspace.id).await?;
        let visible = |snapshot: &&Snapshot| snapshot.kind == SnapshotKind::User;
        Ok(WorkspaceDetails {
            brief: self.brief_of(workspace, caller).await?,
            stop_reason: view.stop_reason.clone(),
            tier: tier(&view.tier),
            accel: view.accel,
            pid: view.pid,
            limits: view.limits.clone(),
            from_pool: view.from_pool,
            forked_from: if self.hides_source(&view, caller).await? { None } else { forked_from(&view) },
            network: view.network.rules.clone(),
            port_forwards,
            snapshots: snapshots
                .iter()
                .filter(visible)
                .map(|snapshot| snapshot_brief(snapshot, &snapshots))
                .collect(),
            disk_used_bytes,
            disk_volsize_bytes: workspace.resources.disk_bytes(),
            shell: shell.map(|shell| shell.path().to_owned()),
            env_names,
            expires_at: settings.expires_at.map(|at| shown(self.clock.on_the_wall(at))),
            idle_stop_secs: settings.idle_stop.map(|idle| idle.as_secs()),
            last_used_at: shown(self.live.last_use(workspace.id).unwrap_or(settings.last_used)),
            restart: settings.restart,
            next_resources: next_resources(workspace, &settings),
        })
    }

    /// The shell of a workspace's commands. A machine that runs and does not answer soon is not waited for.
    async fn shell_of(&self, workspace: &Workspace, running: bool) -> Option<Shell> {
        let live = self.live.of(workspace.id);
        if !running || live.known_shell().is_some() {
            return live.known_shell();
        }
        let ask = async { live.shell(&self.host.link(workspace.id).await.ok()?).await.ok() };
        tokio::time::timeout(SHELL_ANSWER, ask).await.ok().flatten()
    }
}

/// The size a workspace has from its next start on, if that differs from the size it has.
pub(crate) fn next_resources(workspace: &Workspace, settings: &Settings) -> Option<Size> {
    settings.next_size.map(|NextSize { vcpus, memory_mb }| Size {
        vcpus,
        memory_mb,
        disk_gb: workspace.resources.disk_gb,
    })
}

/// The tier as it was stored. A value of an older version that is not known counts as a cold boot.
pub(crate) fn tier(stored: &str) -> Tier {
    Tier::named(stored).unwrap_or(Tier::Cold)
}

pub(crate) fn brief(
    view: &WorkspaceView,
    settings: Option<&Settings>,
    caller: Option<&Caller>,
) -> WorkspaceBrief {
    let owner = settings.and_then(|settings| settings.owner);
    let owned =
        caller.is_some_and(|caller| caller.is_operator() || (owner.is_some() && owner == caller.session));
    let suspended =
        view.state == State::Stopped && settings.is_some_and(|settings| settings.suspended.is_some());
    WorkspaceBrief {
        workspace_id: view.id.to_string(),
        name: view.name.to_string(),
        state: if suspended { State::Suspended } else { view.state },
        ip: view.network.address.map(|address| address.to_string()),
        owned,
        base_image: view.image.to_string(),
        resources: size(&view.resources),
        created_at: shown(view.created),
        labels: settings.map(|settings| settings.labels.clone()).unwrap_or_default(),
        source: view.forked_from.as_ref().map(|from| match &from.snapshot {
            None => from.name.to_string(),
            Some(snapshot) => format!("{}@{snapshot}", from.name),
        }),
        source_id: view.forked_from.as_ref().map(|from| from.id.to_string()),
    }
}

fn without_source(brief: WorkspaceBrief) -> WorkspaceBrief {
    WorkspaceBrief { source: None, source_id: None, ..brief }
}

pub(crate) fn forked_from(view: &WorkspaceView) -> Option<ForkedFrom> {
    view.forked_from.as_ref().map(|from| ForkedFrom {
        source_workspace_id: from.id.to_string(),
        source_workspace_name: from.name.to_string(),
        snapshot_name: from.snapshot.as_ref().map(ToString::to_string),
        forked_at: shown(from.at),
        depth: from.depth,
    })
}

pub(crate) fn snapshot_brief(snapshot: &Snapshot, all: &[Snapshot]) -> SnapshotBrief {
    let parent = snapshot.parent.and_then(|id| all.iter().find(|other| other.id == id));
    SnapshotBrief {
        id: snapshot.id.to_string(),
        name: snapshot.name.to_string(),
        kind: snapshot.kind,
        has_memory: snapshot.memory.is_some(),
        parent: parent.map(|parent| parent.name.to_string()),
        created_at: shown(snapshot.created),
    }
}

pub(crate) fn size(resources: &Resources) -> Size {
    let Resources { vcpus, memory_mb, disk_gb } = *resources;
    Size { vcpus, memory_mb, disk_gb }
}

/// How long something took, in whole milliseconds.
pub(crate) fn took_ms(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A time as it is shown.
pub(crate) fn shown(time: Timestamp) -> String {
    time.to_string()
}
