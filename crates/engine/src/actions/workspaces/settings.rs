//! Labels, lifetimes and sizes of workspaces.

use agentiso_core::action::{State, WorkspaceUpdate, WorkspaceUpdated};
use agentiso_core::admission::Amounts;
use agentiso_core::ports::records::{NextSize, Settings, Workspace};
use agentiso_core::{Failure, Resources};

use super::create::checked_secs;
use crate::act::Context;
use crate::views::{next_resources, shown};
use crate::{Access, Engine, Perform};

impl Perform for WorkspaceUpdate {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<WorkspaceUpdated, Failure> {
        let workspace = context.workspace()?;
        let expires_at = match self.ttl_secs {
            Some(0) => Some(None),
            Some(seconds) => Some(Some(context.engine.clock.now() + checked_secs(seconds)?)),
            None => None,
        };
        let idle_stop = match self.idle_stop_secs {
            Some(0) => Some(None),
            Some(seconds) => Some(Some(checked_secs(seconds)?)),
            None => None,
        };
        let next_size = self.next_size(context).await?;
        let (labels, restart) = (self.labels, self.restart);
        let change = move |settings: &mut Settings| {
            for (key, value) in labels {
                match value {
                    Some(value) => settings.labels.insert(key, value),
                    None => settings.labels.remove(&key),
                };
            }
            settings.expires_at = expires_at.unwrap_or(settings.expires_at);
            settings.idle_stop = idle_stop.unwrap_or(settings.idle_stop);
            settings.restart = restart.unwrap_or(settings.restart);
            settings.next_size = next_size.or(settings.next_size);
        };
        let settings = context.engine.change_settings(workspace.id, change).await?;
        // A workspace without a machine and without saved memory gets its new size at once.
        let settings = match context.engine.is_stopped(workspace.id, &settings).await? {
            true => context.engine.apply_next_size(workspace).await?,
            false => settings,
        };
        let next_resources = next_resources(workspace, &settings);
        Ok(WorkspaceUpdated {
            workspace_id: workspace.id.to_string(),
            labels: settings.labels,
            expires_at: settings.expires_at.map(|at| shown(context.engine.clock.on_the_wall(at))),
            idle_stop_secs: settings.idle_stop.map(|idle| idle.as_secs()),
            restart: settings.restart,
            next_resources,
        })
    }

    fn changed(_: &WorkspaceUpdated) -> Option<String> {
        Some("labels, times or size".to_owned())
    }
}

/// The size in an update.
trait Resize {
    async fn next_size(&self, context: &Context) -> Result<Option<NextSize>, Failure>;
}

impl Resize for WorkspaceUpdate {
    /// The requested size, if there is one; fails if the limits or the quota do not allow it.
    async fn next_size(&self, context: &Context) -> Result<Option<NextSize>, Failure> {
        if self.vcpus.is_none() && self.memory_mb.is_none() {
            return Ok(None);
        }
        let (engine, workspace) = (&context.engine, context.workspace()?);
        let settings = engine.records.settings(workspace.id).await?;
        let now = workspace.resources;
        let then = settings.next_size.unwrap_or(NextSize { vcpus: now.vcpus, memory_mb: now.memory_mb });
        let next = NextSize {
            vcpus: self.vcpus.unwrap_or(then.vcpus),
            memory_mb: self.memory_mb.unwrap_or(then.memory_mb),
        };
        Resources { vcpus: next.vcpus, memory_mb: next.memory_mb, ..now }.check(&engine.settings.limits)?;
        let more = Amounts::memory(next.memory_mb.saturating_sub(now.memory_mb));
        drop(engine.quota.reserve(engine, settings.owner, more).await?);
        Ok(Some(next))
    }
}

impl Engine {
    async fn is_stopped(&self, id: agentiso_core::WorkspaceId, settings: &Settings) -> Result<bool, Failure> {
        let running = self.host.info(id).await?.state == State::Running;
        Ok(!running && settings.suspended.is_none())
    }

    /// Applies the pending size of a workspace without a machine. The caller holds the lock.
    pub(crate) async fn apply_next_size(&self, workspace: &Workspace) -> Result<Settings, Failure> {
        let settings = self.records.settings(workspace.id).await?;
        let Some(next) = settings.next_size else { return Ok(settings) };
        let more = Amounts::memory(next.memory_mb.saturating_sub(workspace.resources.memory_mb));
        let _reserved = self.quota.reserve(self, settings.owner, more).await?;
        self.records.apply_size(workspace.id, next).await
    }
}
