//! `agentiso prune`: removes unused workspaces.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, SystemTime};

use agentiso_config::paths::Paths;
use agentiso_core::action::{State, WorkspaceDetails, WorkspaceInfo, WorkspaceList};
use agentiso_core::{Code, Failure};
use jiff::Timestamp;
use serde_json::json;

use super::rm::remove;
use crate::args;
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::{Stream, Table, age_since, bytes};

/// The exit code if the user answered no.
const DECLINED: u8 = 1;

/// Removes stopped workspaces, after asking.
pub async fn prune(here: &Paths, flags: args::Prune, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    let request = WorkspaceList {
        state_filter: Some(State::Stopped),
        labels: flags.labels.iter().cloned().collect(),
        ..WorkspaceList::default()
    };
    let mut found: Vec<WorkspaceDetails> = Vec::new();
    for brief in daemon.ask("Still looking", &request).await?.workspaces {
        let details =
            daemon.ask("Still looking", &WorkspaceInfo { workspace_id: brief.workspace_id }).await?;
        if flags.unused_for.is_none_or(|least| unused_secs(&details.last_used_at) >= least) {
            found.push(details);
        }
    }
    if flags.dry_run {
        let briefs: Vec<_> = found.iter().map(|details| &details.brief).collect();
        output.result(&json!({ "would_remove": briefs }), |out| list(out, &found))?;
        return Ok(0);
    }
    if !found.is_empty() && !flags.force && !confirm(&found, output)? {
        output.result(&json!({ "removed": [] }), |out| writeln!(out, "Nothing was removed."))?;
        return Ok(DECLINED);
    }
    remove(&daemon, found.into_iter().map(|details| details.brief).collect(), output).await
}

/// Seconds since a time. An invalid time counts as now, so that the workspace is kept.
fn unused_secs(last_used: &str) -> u64 {
    let since = last_used.parse::<Timestamp>().ok().and_then(|at| SystemTime::from(at).elapsed().ok());
    since.as_ref().map_or(0, Duration::as_secs)
}

fn list(out: &mut Stream, found: &[WorkspaceDetails]) -> io::Result<()> {
    let mut table = Table::new(["NAME", "DISK USED", "LAST USED"]).align_right(1);
    for details in found {
        let used = format!("{} ago", age_since(&details.last_used_at));
        table.row([details.brief.name.clone(), bytes(details.disk_used_bytes), used]);
    }
    table.write(out)
}

/// Asks for confirmation, and returns whether the answer is yes. Fails if standard input is not a terminal.
fn confirm(found: &[WorkspaceDetails], output: Output) -> Result<bool, Failure> {
    if output.json || !io::stdin().is_terminal() {
        return Err(Failure::new(
            Code::InvalidArgument,
            "prune asks for confirmation, and standard input is not a terminal",
        )
        .with_remedy(
            "run agentiso prune --dry-run to see what it would remove, then agentiso prune --force",
        ));
    }
    let mut err = Stream::stderr();
    let asked = list(&mut err, found)
        .and_then(|()| write!(err, "Remove these {} workspaces? [y/N] ", found.len()))
        .and_then(|()| err.flush());
    let mut answer = String::new();
    asked.and_then(|()| io::stdin().lock().read_line(&mut answer)).map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not ask for confirmation: {error}"))
    })?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_consent() {
        for yes in ["y", "Y\n", "yes", "Yes\r\n"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n", "no", "yess", "yes please", "remove"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }

    #[test]
    fn a_workspace_whose_last_use_is_unknown_or_in_the_future_is_in_use() {
        assert_eq!(unused_secs("never"), 0);
        assert_eq!(unused_secs("2999-01-01T00:00:00Z"), 0);
        assert!(unused_secs("2020-01-01T00:00:00Z") > 86_400);
    }
}
