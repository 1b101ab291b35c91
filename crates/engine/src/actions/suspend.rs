//! Suspending workspaces to disk and bringing them back.
//!
//! A suspended workspace is a stopped one with a snapshot of its last moment, memory and all, that only
//! [`Context::resume`] uses. If anything fails on the way there it goes on running; on the way back it stays suspended.

use std::time::Instant;

use agentiso_core::action::{WorkspaceResume, WorkspaceStateNow, WorkspaceSuspend};
use agentiso_core::{Code, Failure, SnapshotName};
use agentiso_runtime::workspaces::SnapshotRequest;

use super::lifecycle::state_now;
use crate::act::Context;
use crate::events::EventKind;
use crate::{Access, Perform};

/// What the snapshot of the last moment is called.
const LAST_MOMENT: &str = "suspended";

impl Perform for WorkspaceSuspend {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<WorkspaceStateNow, Failure> {
        let (workspace, engine, began) = (context.workspace()?, &context.engine, Instant::now());
        let (id, meta) = (workspace.id.to_string(), engine.meta());
        let before = meta.read(|read| read.settings(workspace.id))?;
        if before.suspended.is_some() {
            return Ok(state_now(workspace, "suspended", began, Some("it was suspended already".to_owned())));
        }
        let taken = meta.read(|read| read.snapshots(workspace.id))?;
        let name = free_name(|name| taken.iter().any(|snapshot| snapshot.name.as_str() == name))?;
        let request = SnapshotRequest {
            workspace: id.clone(),
            name,
            description: "the last moment before it was suspended".to_owned(),
            memory: true,
        };
        let snapshot = engine.workspaces.snapshot(&request).await?.snapshot;
        // In this order: a machine that ends by whatever from here on is found suspended, and one that goes on is not.
        engine.change_settings(workspace.id, |settings| settings.suspended = Some(snapshot.id))?;
        if let Err(failure) = engine.workspaces.stop(&id, true, None).await {
            context.forget_last_moment().await?;
            return Err(failure);
        }
        engine.events.tell(EventKind::Suspended, workspace.id, workspace.name.as_str(), None);
        Ok(state_now(workspace, "suspended", began, None))
    }

    fn changed(outcome: &WorkspaceStateNow) -> Option<String> {
        Some(outcome.state.clone())
    }
}

impl Perform for WorkspaceResume {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<WorkspaceStateNow, Failure> {
        context.start().await
    }

    fn changed(outcome: &WorkspaceStateNow) -> Option<String> {
        Some(outcome.state.clone())
    }
}

impl Context {
    /// Brings a suspended workspace back. The caller has the turn.
    pub(super) async fn resume(&self) -> Result<WorkspaceStateNow, Failure> {
        let (workspace, engine, began) = (self.workspace()?, &self.engine, Instant::now());
        let last = engine.meta().read(|read| {
            let suspended = read.settings(workspace.id)?.suspended;
            suspended.map(|id| read.snapshot(id)).transpose()
        })?;
        let last =
            last.ok_or_else(|| Failure::new(Code::Internal, format!("{} is not suspended", workspace.name)))?;
        let id = workspace.id.to_string();
        engine.workspaces.restore(&id, last.name.as_str(), false, &self.progress).await?;
        self.forget_last_moment().await?;
        engine.equip(workspace.id).await?;
        engine.watch(workspace.id);
        engine.events.tell(EventKind::Started, workspace.id, workspace.name.as_str(), None);
        Ok(state_now(workspace, "running", began, Some("it goes on where it was".to_owned())))
    }
}

impl Context {
    /// Removes the snapshot a workspace was suspended to, if it was: it is somewhere else now.
    pub(super) async fn forget_last_moment(&self) -> Result<(), Failure> {
        let (id, engine) = (self.workspace()?.id, &self.engine);
        let Some(last) = engine.meta().read(|read| read.settings(id))?.suspended else { return Ok(()) };
        let name = engine.meta().read(|read| read.snapshot(last))?.name;
        engine.change_settings(id, |settings| settings.suspended = None)?;
        engine.workspaces.remove_snapshot(&id.to_string(), name.as_str()).await
    }
}

fn free_name(taken: impl Fn(&str) -> bool) -> Result<SnapshotName, Failure> {
    let mut name = LAST_MOMENT.to_owned();
    let mut number = 1;
    while taken(&name) {
        number += 1;
        name = format!("{LAST_MOMENT}-{number}");
    }
    Ok(name.parse()?)
}
