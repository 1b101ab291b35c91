//! Labels and times of workspaces.

use agentiso_core::action::{WorkspaceUpdate, WorkspaceUpdated};
use agentiso_core::{Failure, check_labels};

use super::create::{checked_secs, in_so_long};
use crate::act::Context;
use crate::views::shown;
use crate::{Access, Perform};

impl Perform for WorkspaceUpdate {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<WorkspaceUpdated, Failure> {
        let (workspace, meta) = (context.workspace()?, context.engine.meta());
        let mut settings = meta.read(|read| read.settings(workspace.id))?;
        for (key, value) in self.labels {
            match value {
                Some(value) => settings.labels.insert(key, value),
                None => settings.labels.remove(&key),
            };
        }
        check_labels(&settings.labels)?;
        match self.ttl_secs {
            Some(0) => settings.expires_at = None,
            Some(seconds) => settings.expires_at = Some(in_so_long(seconds)?),
            None => {}
        }
        match self.idle_stop_secs {
            Some(0) => settings.idle_stop = None,
            Some(seconds) => settings.idle_stop = Some(checked_secs(seconds)?),
            None => {}
        }
        meta.write(|tx| tx.set_settings(workspace.id, &settings))?;
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
