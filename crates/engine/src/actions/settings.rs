//! Labels and times of workspaces.

use agentiso_core::Failure;
use agentiso_core::action::{WorkspaceUpdate, WorkspaceUpdated};

use super::create::{checked_secs, in_so_long};
use crate::act::Context;
use crate::views::shown;
use crate::{Access, Perform};

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
        let settings = context.engine.change_settings(workspace.id, |settings| {
            for (key, value) in self.labels {
                match value {
                    Some(value) => settings.labels.insert(key, value),
                    None => settings.labels.remove(&key),
                };
            }
            settings.expires_at = expires_at.unwrap_or(settings.expires_at);
            settings.idle_stop = idle_stop.unwrap_or(settings.idle_stop);
        })?;
        Ok(WorkspaceUpdated {
            workspace_id: workspace.id.to_string(),
            labels: settings.labels,
            expires_at: settings.expires_at.map(shown),
            idle_stop_secs: settings.idle_stop.map(|idle| idle.as_secs()),
        })
    }

    fn changed(_: &WorkspaceUpdated) -> Option<String> {
        Some("labels or times".to_owned())
    }
}
