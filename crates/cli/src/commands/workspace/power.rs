//! `agentiso start`, `stop`, `suspend` and `resume`, of one workspace or of many.

use std::io::{self, Write};
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{
    Action, State, WorkspaceResume, WorkspaceStart, WorkspaceStateNow, WorkspaceStop, WorkspaceSuspend,
};
use serde_json::json;

use super::selection::chosen;
use crate::args::{self, Selection};
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::{Stream, duration};

/// The exit code if one of several workspaces could not be changed.
const SOME_FAILED: u8 = 1;

/// A change of state, in words.
struct Words {
    /// What it is called while it is made, as in "Still stopping".
    doing: &'static str,
    /// What it is called when it is made.
    done: &'static str,
    /// The states it changes; with --all and --label, workspaces in other states are left alone.
    from: &'static [State],
}

/// Starts stopped workspaces on their disks.
pub async fn start(here: &Paths, flags: args::Start, output: Output) -> Result<u8, Failure> {
    let words = Words { doing: "starting", done: "Started", from: &[State::Stopped, State::Suspended] };
    change(here, output, flags.which, &words, |workspace_id| WorkspaceStart { workspace_id }).await
}

/// Stops workspaces.
pub async fn stop(here: &Paths, flags: args::Stop, output: Output) -> Result<u8, Failure> {
    let args::Stop { which, force, timeout: timeout_secs } = flags;
    let words = Words { doing: "stopping", done: "Stopped", from: &[State::Running] };
    let request = |workspace_id| WorkspaceStop { workspace_id, force, timeout_secs };
    change(here, output, which, &words, request).await
}

/// Writes the memory of workspaces to disk and ends their machines.
pub async fn suspend(here: &Paths, flags: args::Suspend, output: Output) -> Result<u8, Failure> {
    let words = Words { doing: "suspending", done: "Suspended", from: &[State::Running] };
    change(here, output, flags.which, &words, |workspace_id| WorkspaceSuspend { workspace_id }).await
}

/// Continues suspended workspaces.
pub async fn resume(here: &Paths, flags: args::Resume, output: Output) -> Result<u8, Failure> {
    let words = Words { doing: "resuming", done: "Resumed", from: &[State::Suspended] };
    change(here, output, flags.which, &words, |workspace_id| WorkspaceResume { workspace_id }).await
}

async fn change<A: Action<Outcome = WorkspaceStateNow>>(
    here: &Paths,
    output: Output,
    mut which: Selection,
    words: &Words,
    request: impl Fn(String) -> A,
) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    if which.workspaces.len() == 1 {
        let name = which.workspaces.remove(0);
        let what = format!("Still {} {name}", words.doing);
        let now = daemon.change(&what, &request(name)).await?;
        output.result(&now, |out| tell(out, words.done, &now))?;
        return Ok(0);
    }
    let named = !which.workspaces.is_empty();
    let mut chosen = chosen(&daemon, which).await?;
    chosen.retain(|one| named || words.from.contains(&one.state));
    let wishes: Vec<A> = chosen.iter().map(|one| request(one.workspace_id.clone())).collect();
    let what = format!("Still {} {} workspaces", words.doing, wishes.len());
    let results = daemon.change_each(&what, &wishes).await?;
    let (mut changed, mut failures) = (Vec::new(), Vec::new());
    for (workspace, result) in chosen.iter().zip(results) {
        match result {
            Ok(now) => changed.push(now),
            Err(failure) => failures.push((workspace.name.clone(), failure)),
        }
    }
    let failed: Vec<_> = failures
        .iter()
        .map(|(name, failure)| json!({ "name": name, "code": failure.code(), "error": failure.to_string() }))
        .collect();
    output.result(&json!({ "workspaces": changed, "failures": failed }), |out| {
        changed.iter().try_for_each(|now| tell(out, words.done, now))
    })?;
    if !output.json {
        failures.iter().for_each(|(_, failure)| output.failure(failure));
    }
    Ok(if failures.is_empty() { 0 } else { SOME_FAILED })
}

fn tell(out: &mut Stream, done: &str, now: &WorkspaceStateNow) -> io::Result<()> {
    match &now.note {
        Some(note) => writeln!(out, "{} is {}: {note}.", now.name, now.state),
        None => writeln!(out, "{done} {} in {}.", now.name, duration(Duration::from_millis(now.took_ms))),
    }
}
