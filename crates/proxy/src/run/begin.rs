//! What the envelope says before anything has happened.

use crate::envelope::{CaptureReport, DecisionReport, Outcome, ResultReport, RunState};
use crate::request::{Invocation, Run};

/// The program for lines of shell, if it exists; `/bin/sh` otherwise.
const BASH: &str = "/bin/bash";

/// The result of a request that has not been looked at.
pub fn result(run: &Run) -> ResultReport {
    let nothing = CaptureReport { complete: true, ..CaptureReport::default() };
    ResultReport {
        vault: run.vault.clone().unwrap_or_default(),
        mountpoint: String::new(),
        cwd: run.cwd.clone(),
        command: run.line(),
        exit_code: 0,
        stdout: String::new(),
        stderr: String::new(),
        readonly: run.readonly,
        kept_mounted: false,
        duration_ms: 0,
        checkpoint: None,
        changed_files: Vec::new(),
        decision: DecisionReport::none("the request was refused before it was judged"),
        state: RunState::Failed,
        timed_out: false,
        outcome: Outcome::InternalError,
        exit_status: 125,
        argv: argv(run),
        signal: None,
        signal_name: None,
        workspace: String::new(),
        fork: None,
        stdout_capture: nothing.clone(),
        stderr_capture: nothing,
        changes: Vec::new(),
        changes_total: 0,
        changes_truncated: false,
        conflicts: Vec::new(),
        usage: None,
        enforcement: None,
        approval: None,
        error: None,
        warnings: Vec::new(),
        total_ms: 0,
    }
}

/// What is executed: the arguments, or a shell with the line.
fn argv(run: &Run) -> Vec<String> {
    match &run.command {
        Invocation::Argv(argv) => argv.clone(),
        Invocation::Shell(line) => {
            let shell = if std::path::Path::new(BASH).exists() { BASH } else { "/bin/sh" };
            vec![shell.to_owned(), "-c".to_owned(), line.clone()]
        }
    }
}
