//! Completing what only the daemon knows: workspaces, snapshots, images and paths in workspaces.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use agentiso_client::Client;
use agentiso_config::paths::Paths;
use agentiso_core::action::{Action, FileList, PathKind, SnapshotList, State, WorkspaceList};
use agentiso_runtime::Installation;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};

use crate::daemon::client_if_running;

/// How long a key press may wait for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The names of workspaces that begin like this; none if no daemon runs.
pub fn workspace_names(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(current, asked(async |client| Some(names(&workspaces(&client).await?))))
}

/// The names of the snapshots, beginning like this, of the workspace that was named before.
pub fn snapshot_names(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(workspace_id) = workspace_before(&words_before()) else { return Vec::new() };
    let listed = asked(async |client| act(&client, &SnapshotList { workspace_id, kind: None }).await);
    let names =
        listed.map(|listed| listed.snapshots.into_iter().map(|snapshot| snapshot.brief.name).collect());
    candidates(current, names)
}

/// The names of images that begin like this.
pub fn image_names(current: &OsStr) -> Vec<CompletionCandidate> {
    let images = || {
        let here = Installation::open(Paths::of_process(None).ok()?).ok()?;
        let images = here.images().ok()?.list().ok()?;
        Some(images.into_iter().map(|image| image.meta.name.to_string()).collect())
    };
    candidates(current, images())
}

/// Paths here, workspaces with a colon behind their names, and behind the colon paths in a workspace that runs.
pub fn places(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_str().unwrap_or_default();
    if let Some((workspace, path)) = text.split_once(':')
        && !workspace.is_empty()
        && !workspace.contains('/')
    {
        return candidates(current, paths_in(workspace, path));
    }
    let mut found = PathCompleter::any().complete(current);
    if !text.contains('/') {
        let names = asked(async |client| Some(names(&workspaces(&client).await?)));
        let with_colon = names.map(|names| names.into_iter().map(|name| format!("{name}:")).collect());
        found.extend(candidates(current, with_colon));
    }
    found
}

/// What is in the directory of a path, as `WS:PATH`.
fn paths_in(workspace: &str, path: &str) -> Option<Vec<String>> {
    let above = path.rfind('/').map_or("", |at| &path[..=at]);
    let directory = if above.starts_with('/') { above.to_owned() } else { format!("/root/{above}") };
    let listed = asked(async |client| {
        // Looking must not start a machine.
        let runs = workspaces(&client).await?.iter().any(|(name, running)| name == workspace && *running);
        let request = FileList { workspace_id: workspace.to_owned(), path: directory, ..FileList::default() };
        if runs { act(&client, &request).await } else { None }
    })?;
    let shown = listed.entries.into_iter().map(|entry| {
        let end = if entry.kind == PathKind::Directory { "/" } else { "" };
        format!("{workspace}:{above}{}{end}", entry.name)
    });
    Some(shown.collect())
}

/// The names of all workspaces, and whether they run.
async fn workspaces(client: &Client) -> Option<Vec<(String, bool)>> {
    let listed = act(client, &WorkspaceList::default()).await?;
    Some(listed.workspaces.into_iter().map(|one| (one.name, one.state == State::Running)).collect())
}

fn names(workspaces: &[(String, bool)]) -> Vec<String> {
    workspaces.iter().map(|(name, _)| name.clone()).collect()
}

async fn act<A: Action>(client: &Client, action: &A) -> Option<A::Outcome> {
    client.act(action).await.ok()
}

/// Asks the daemon, if one runs and answers in time.
fn asked<T>(question: impl AsyncFnOnce(Client) -> Option<T>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answer = async {
        let client = client_if_running(&Paths::of_process(None).ok()?).await.ok()??;
        question(client).await
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, answer).await }).ok().flatten()
}

fn candidates(current: &OsStr, words: Option<Vec<String>>) -> Vec<CompletionCandidate> {
    let Some(begun) = current.to_str() else { return Vec::new() };
    let words = words.unwrap_or_default().into_iter().filter(|word| word.starts_with(begun));
    words.map(CompletionCandidate::new).collect()
}

/// The words of the line that is being completed: the shell passes them behind `--`.
fn words_before() -> Vec<String> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let line = words.iter().position(|word| word == "--").map_or(&[][..], |at| &words[at + 1..]);
    line.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The workspace a line names before the snapshot: `snapshot VERB WS NAME`, `fork WS NAME`.
fn workspace_before(line: &[String]) -> Option<String> {
    let mut plain = line.iter().skip(1).filter(|word| !word.starts_with('-'));
    match plain.next()?.as_str() {
        "snapshot" => plain.nth(1).cloned(),
        "fork" => plain.next().cloned(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_of_a_snapshot_is_named_before_it() {
        let before = |line: &str| workspace_before(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(before("agentiso snapshot restore web be").as_deref(), Some("web"));
        assert_eq!(before("agentiso --json snapshot diff --under web a").as_deref(), Some("web"));
        assert_eq!(before("agentiso fork web").as_deref(), Some("web"));
        assert_eq!(before("agentiso snapshot restore"), None);
        assert_eq!(before("agentiso exec web"), None);
    }
}
