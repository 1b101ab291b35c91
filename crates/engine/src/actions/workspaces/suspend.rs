//! Suspending workspaces to disk and resuming them.
//!
//! A suspended workspace is a stopped one with a snapshot of its last moment, memory and all, that only
//! [`Context::resume`] uses. If suspending fails, it keeps running; if resuming fails, it stays suspended.

use std::time::Instant;

use agentiso_core::action::{SnapshotKind, State, WorkspaceStateNow, WorkspaceSuspend};
use agentiso_core::ports::host::SnapshotRequest;
use agentiso_core::ports::records::{Settings, Snapshot};
use agentiso_core::{Code, Failure, SnapshotName, WorkspaceId};
use uuid::Uuid;

use super::lifecycle::state_now;
use crate::act::Context;
use crate::admission::NOW;
use crate::env::MachineEnv;
use crate::events::EventKind;
use crate::{Access, Engine, Perform};

/// The name of a snapshot that a user wants to take.
pub(super) fn users_snapshot(name: &str) -> Result<SnapshotName, Failure> {
    let name: SnapshotName = name.parse()?;
    if name.as_str() == NOW {
        let message = format!("{NOW:?} cannot be the name of a snapshot: it means the present state");
        return Err(Failure::new(Code::InvalidArgument, message).with_remedy("choose another name"));
    }
    Ok(name)
}

/// Refuses a snapshot that a workspace was suspended to: only resuming uses it, and forks of it may need it.
pub(crate) fn refuse_suspend_snapshot(snapshot: &Snapshot) -> Result<(), Failure> {
    if snapshot.kind != SnapshotKind::Suspend {
        return Ok(());
    }
    let message = format!("snapshot {:?} holds the state of a suspended workspace", snapshot.name.as_str());
    Err(Failure::new(Code::InvalidArgument, message)
        .with_remedy("workspace_resume continues from it; workspace_stop with force discards it"))
}

impl Perform for WorkspaceSuspend {
    const ACCESS: Access = Access::Changes;
    const ENDS_MACHINE: Option<&'static str> = Some("was suspended");

    async fn perform(self, context: &Context) -> Result<WorkspaceStateNow, Failure> {
        let (workspace, engine, began) = (context.workspace()?, &context.engine, Instant::now());
        let before = engine.records.settings(workspace.id).await?;
        if before.suspended.is_some() {
            return Ok(state_now(
                workspace,
                State::Suspended,
                began,
                Some("it was suspended already".to_owned()),
            ));
        }
        let request = SnapshotRequest {
            workspace: workspace.id,
            // Snapshots that forks still need stay, so every suspension needs a name of its own.
            name: format!("suspend-{}", Uuid::now_v7()).parse()?,
            kind: SnapshotKind::Suspend,
            description: "the last moment before it was suspended".to_owned(),
            memory: true,
        };
        let snapshot = engine.host.snapshot(&request).await?.snapshot.id;
        // In this order: if the machine ends from here on for any reason, the workspace is suspended.
        let marked =
            engine.change_settings(workspace.id, move |settings| settings.suspended = Some(snapshot)).await;
        if let Err(failure) = marked {
            if let Err(failure) = engine.host.remove_snapshot(workspace.id, snapshot).await {
                tracing::warn!(%failure, "a snapshot that a workspace was not suspended to could not be removed");
            }
            return Err(failure);
        }
        if let Err(failure) = engine.host.stop(workspace.id, true, None).await {
            // A machine that was killed has its memory only in the snapshot.
            match engine.host.info(workspace.id).await?.state {
                State::Running => {
                    engine.forget_last_moment(workspace.id).await?;
                    return Err(failure);
                }
                _ => {
                    tracing::warn!(%failure, "a machine was suspended, but not everything of it was removed")
                }
            }
        }
        engine.events.tell(EventKind::Suspended, workspace.id, workspace.name.as_str(), None).await;
        Ok(state_now(workspace, State::Suspended, began, None))
    }

    fn changed(outcome: &WorkspaceStateNow) -> Option<String> {
        Some(outcome.state.to_string())
    }
}

impl Context {
    /// Resumes a suspended workspace. The caller holds the lock.
    pub(super) async fn resume(&self) -> Result<WorkspaceStateNow, Failure> {
        let (workspace, engine, began) = (self.workspace()?, &self.engine, Instant::now());
        let last = engine.records.suspended_to(workspace.id).await?;
        let last =
            last.ok_or_else(|| Failure::new(Code::Internal, format!("{} is not suspended", workspace.name)))?;
        engine.host.restore(workspace.id, last.id, false, &self.progress).await?;
        let running = |settings: &mut Settings| {
            settings.suspended = None;
            settings.stay_stopped = false;
        };
        if let Err(failure) = engine.change_settings(workspace.id, running).await {
            // It must not run while it counts as suspended: the next start would take it back to this moment.
            engine.host.stop(workspace.id, true, None).await?;
            return Err(failure);
        }
        if let Err(failure) = engine.forget_last_moment(workspace.id).await {
            tracing::warn!(%failure, "what a workspace was suspended to could not be removed");
        }
        self.complete_start(MachineEnv::Current).await?;
        Ok(state_now(
            workspace,
            State::Running,
            began,
            Some("it continues where it was suspended".to_owned()),
        ))
    }
}

impl Engine {
    /// A workspace is somewhere else than where it was suspended, if it was: removes what was kept for that.
    pub(crate) async fn forget_last_moment(&self, id: WorkspaceId) -> Result<(), Failure> {
        let snapshots = self.records.snapshots(id).await?;
        if self.records.settings(id).await?.suspended.is_some() {
            self.change_settings(id, |settings| settings.suspended = None).await?;
        }
        for snapshot in snapshots.iter().filter(|snapshot| snapshot.kind == SnapshotKind::Suspend) {
            match self.host.remove_snapshot(id, snapshot.id).await {
                // It goes when its forks have gone.
                Err(failure) if failure.code() == Code::SnapshotInUse => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}
