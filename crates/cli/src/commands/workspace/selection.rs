//! The workspaces a verb is about.

use agentiso_core::Failure;
use agentiso_core::action::{WorkspaceBrief, WorkspaceInfo, WorkspaceList};

use crate::args::Selection;
use crate::commands::Daemon;

/// Finds the workspaces that were named, each once, or all that match. Fails if a named one does not exist.
pub async fn chosen(daemon: &Daemon, which: Selection) -> Result<Vec<WorkspaceBrief>, Failure> {
    if which.workspaces.is_empty() {
        let labels = which.labels.into_iter().collect();
        let request = WorkspaceList { labels, ..WorkspaceList::default() };
        return Ok(daemon.ask("Still looking", &request).await?.workspaces);
    }
    let mut found: Vec<WorkspaceBrief> = Vec::new();
    for workspace_id in which.workspaces {
        let brief = daemon.ask("Still looking", &WorkspaceInfo { workspace_id }).await?.brief;
        if !found.iter().any(|other| other.workspace_id == brief.workspace_id) {
            found.push(brief);
        }
    }
    Ok(found)
}
