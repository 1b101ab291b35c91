//! `agentiso fork`: new workspaces from one that exists.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use agentiso_core::{Failure, WorkspaceName};
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::{ForkRequest, ForkSource, Forked, WorkspaceView, Workspaces};
use serde::Serialize;
use serde_json::Value;

use super::hooks::{HookView, warn};
use super::{Held, waiting};
use crate::args;
use crate::output::Output;
use crate::ui::{Stream, duration, error_object, milliseconds, report};

/// The exit code if a fork could not be made.
const SOME_FAILED: u8 = 1;

/// What became of all of them.
#[derive(Serialize)]
struct Report {
    pause_ms: f64,
    total_ms: f64,
    made: usize,
    failed: usize,
    forks: Vec<Child>,
}

/// What became of one.
#[derive(Serialize)]
struct Child {
    name: WorkspaceName,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<WorkspaceView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<HookView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    #[serde(skip)]
    failure: Option<Failure>,
}

/// Makes forks.
pub async fn fork(installation: &Installation, flags: args::Fork, output: Output) -> Result<u8, Failure> {
    let held = Held::new()?;
    let source = match flags.snapshot {
        None => ForkSource::Now,
        Some(name) => ForkSource::Snapshot { name, disk_only: flags.disk_only },
    };
    let request = ForkRequest {
        workspace: flags.workspace,
        source,
        name: flags.name.as_deref().map(str::parse).transpose()?,
        count: flags.count,
        all_or_nothing: flags.all_or_nothing,
    };
    let began = Instant::now();
    let outcome = waiting(output, "Still forking", async |progress| {
        Workspaces::open(installation).await?.fork(&request, &progress).await
    })
    .await?;
    let took = began.elapsed();
    let forks: Vec<Child> = outcome.forks.into_iter().map(Child::of).collect();
    let failed = forks.iter().filter(|child| child.failure.is_some()).count();
    let made = forks.len() - failed;
    let (pause_ms, total_ms) = (milliseconds(outcome.pause), milliseconds(took));
    let report = Report { pause_ms, total_ms, made, failed, forks };
    output.result(&report, |out| tell(out, &request.workspace, &report, outcome.pause, took))?;
    Ok(held.exit_code(if failed == 0 { 0 } else { SOME_FAILED }))
}

impl Child {
    fn of(forked: Forked) -> Self {
        let Forked { name, result } = forked;
        match result {
            Ok((workspace, hooks)) => {
                let hooks = HookView::all(&hooks);
                Self { name, workspace: Some(workspace), hooks, error: None, failure: None }
            }
            Err(failure) => {
                let error = Some(error_object(&failure));
                Self { name, workspace: None, hooks: Vec::new(), error, failure: Some(failure) }
            }
        }
    }
}

fn tell(out: &mut Stream, source: &str, all: &Report, pause: Duration, took: Duration) -> io::Result<()> {
    let mut err = Stream::stderr();
    for child in &all.forks {
        if let Some(WorkspaceView { name, id, tier, .. }) = &child.workspace {
            writeln!(out, "Forked {name} ({id}): {tier}.")?;
        }
        if let Some(failure) = &child.failure {
            writeln!(err, "{} could not be made:", child.name)?;
            report(failure, false, &mut Stream::stdout(), &mut err)?;
        }
        warn(&mut err, &child.hooks)?;
    }
    let pause =
        if pause.is_zero() { String::new() } else { format!("; {source} paused for {}", duration(pause)) };
    writeln!(out, "{} of {} in {}{pause}.", all.made, all.forks.len(), duration(took))
}
