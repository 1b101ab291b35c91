//! Labels, times and sizes of workspaces.

use agentiso_core::action::{State, WorkspaceUpdate, WorkspaceUpdated};
use agentiso_core::{Failure, Resources};
use agentiso_meta::{NextSize, Settings, Workspace};

use super::create::{checked_secs, in_so_long};
use crate::act::Context;
use crate::clock;
use crate::quota::Asked;
use crate::views::{next_resources, shown};
use crate::{Access, Engine, Perform};

impl Perform for WorkspaceUpdate {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<WorkspaceUpdated, Failure> {
        let workspace = context.workspace()?;
        let expires_at = match self.ttl_secs {
            Some(0) => Some(None),
            Some(seconds) => Some(Some(in_so_long(seconds)?)),
            None => None,
        };
        let idle_stop = match self.idle_stop_secs {
            Some(0) => Some(None),
            Some(seconds) => Some(Some(checked_secs(seconds)?)),
            None => None,
        };
        let next_size = self.next_size(context)?;
        let settings = context.engine.change_settings(workspace.id, |settings| {
            for (key, value) in self.labels {
                match value {
                    Some(value) => settings.labels.insert(key, value),
                    None => settings.labels.remove(&key),
                };
            }
            settings.expires_at = expires_at.unwrap_or(settings.expires_at);
            settings.idle_stop = idle_stop.unwrap_or(settings.idle_stop);
            settings.restart = self.restart.unwrap_or(settings.restart);
            settings.next_size = next_size.or(settings.next_size);
        })?;
        // One that has no machine and no memory waiting for it has its new size at once.
        let settings = match context.engine.is_stopped(workspace.id, &settings)? {
            true => context.engine.apply_next_size(workspace)?,
            false => settings,
        };
        let next_resources = next_resources(workspace, &settings);
        Ok(WorkspaceUpdated {
            workspace_id: workspace.id.to_string(),
            labels: settings.labels,
            expires_at: settings.expires_at.map(clock::on_the_wall).map(shown),
            idle_stop_secs: settings.idle_stop.map(|idle| idle.as_secs()),
            restart: settings.restart,
            next_resources,
        })
    }

    fn changed(_: &WorkspaceUpdated) -> Option<String> {
        Some("labels, times or size".to_owned())
    }
}

/// What an update asks of the size.
trait Resize {
    fn next_size(&self, context: &Context) -> Result<Option<NextSize>, Failure>;
}

impl Resize for WorkspaceUpdate {
    /// The size that is asked for, if one is and the limits and the quota allow it.
    fn next_size(&self, context: &Context) -> Result<Option<NextSize>, Failure> {
        if self.vcpus.is_none() && self.memory_mb.is_none() {
            return Ok(None);
        }
        let (engine, workspace) = (&context.engine, context.workspace()?);
        let settings = engine.meta().read(|read| read.settings(workspace.id))?;
        let now = workspace.resources;
        let then = settings.next_size.unwrap_or(NextSize { vcpus: now.vcpus, memory_mb: now.memory_mb });
        let next = NextSize {
            vcpus: self.vcpus.unwrap_or(then.vcpus),
            memory_mb: self.memory_mb.unwrap_or(then.memory_mb),
        };
        Resources { vcpus: next.vcpus, memory_mb: next.memory_mb, ..now }.check(&engine.config().limits)?;
        let more = Asked::memory(next.memory_mb.saturating_sub(now.memory_mb));
        drop(engine.quota.reserve(engine, settings.owner, more)?);
        Ok(Some(next))
    }
}

impl Engine {
    fn is_stopped(&self, id: agentiso_core::WorkspaceId, settings: &Settings) -> Result<bool, Failure> {
        let running = self.workspaces.info(id)?.state == State::Running;
        Ok(!running && settings.suspended.is_none())
    }

    /// Gives a workspace that has no machine the size it was changed to. The caller has the turn.
    pub(crate) fn apply_next_size(&self, workspace: &Workspace) -> Result<Settings, Failure> {
        let settings = self.meta().read(|read| read.settings(workspace.id))?;
        let Some(next) = settings.next_size else { return Ok(settings) };
        let more = Asked::memory(next.memory_mb.saturating_sub(workspace.resources.memory_mb));
        let _room = self.quota.reserve(self, settings.owner, more)?;
        Ok(self.meta().write(|tx| {
            tx.set_size(workspace.id, next.vcpus, next.memory_mb)?;
            let settings = Settings { next_size: None, ..tx.settings(workspace.id)? };
            tx.set_settings(workspace.id, &settings)?;
            Ok(settings)
        })?)
    }
}
