//! Completing what only the daemon knows.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use agentiso_core::action::WorkspaceList;
use agentiso_core::progress::{Progress, Silent};
use agentiso_runtime::paths::Paths;
use clap_complete::engine::CompletionCandidate;

use crate::daemon::client_if_running;

/// Whoever presses a key does not wait longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The names of workspaces that begin like this; none if no daemon runs.
pub fn workspace_names(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(begun) = current.to_str() else { return Vec::new() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let names = runtime.block_on(async { tokio::time::timeout(PATIENCE, names()).await });
    let names = names.ok().flatten().unwrap_or_default();
    names.into_iter().filter(|name| name.starts_with(begun)).map(CompletionCandidate::new).collect()
}

async fn names() -> Option<Vec<String>> {
    let paths = Paths::of_process(None).ok()?;
    let client = client_if_running(&paths).await.ok()??;
    let progress: Arc<dyn Progress> = Arc::new(Silent);
    let listed = client.act(&WorkspaceList::default(), &progress).await.ok()?;
    Some(listed.workspaces.into_iter().map(|workspace| workspace.name).collect())
}
