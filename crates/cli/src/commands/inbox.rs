//! `agentiso inbox`: requests for approval.

use std::io::{self, BufRead, Write};

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{ApprovalBrief, InboxApprover, InboxDeny, InboxGrant, InboxList, InboxListed};
use agentiso_core::approval::{ApprovalState, GrantScope};
use agentiso_proxy::Granting;

use super::Daemon;
use crate::args::{Inbox, InboxVerb};
use crate::output::Output;
use crate::ui::{Stream, age_since, one_line};

/// How much of an id is shown: enough to name it by.
const SHORT: usize = 8;

/// Lists or answers requests for approval.
pub async fn inbox(here: &Paths, flags: Inbox, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    match flags.verb.unwrap_or(InboxVerb::Ls { all: false, wait: None }) {
        InboxVerb::Ls { all, wait } => {
            let request = InboxList { request_id: None, all: all.then_some(true), wait_secs: wait };
            let listed = daemon.ask_quietly(&request).await?;
            output.result(&listed, |out| list(out, &listed))?;
        }
        InboxVerb::Grant { request, workspace, always } => {
            let scope = match (workspace, always) {
                (_, true) => GrantScope::Always,
                (true, false) => GrantScope::Workspace,
                (false, false) => GrantScope::Once,
            };
            check_asker(&daemon, &request).await?;
            let request = InboxGrant { request_id: request, scope: Some(scope) };
            let answered = daemon.change("Still granting the request", &request).await?;
            output.result(&answered, |out| answer(out, &answered.request))?;
        }
        InboxVerb::Deny { request } => {
            let request = InboxDeny { request_id: request };
            let answered = daemon.change("Still denying the request", &request).await?;
            output.result(&answered, |out| answer(out, &answered.request))?;
        }
        InboxVerb::Approver { session, remove } => {
            let request = InboxApprover { session_id: session, approver: Some(!remove) };
            let set = daemon.change("Still naming the approver", &request).await?;
            let may = if set.approver { "can now" } else { "can no longer" };
            output.result(&set, |out| {
                writeln!(out, "{} ({}) {may} answer requests of other sessions.", set.client, set.session_id)
            })?;
        }
    }
    Ok(0)
}

/// Refuses to grant a command in a vault from the session of processes that asked for it.
async fn check_asker(daemon: &Daemon, request: &str) -> Result<(), Failure> {
    let listed = daemon
        .ask_quietly(&InboxList { request_id: Some(request.to_owned()), all: Some(true), wait_secs: None })
        .await?;
    let Some(found) = listed.requests.into_iter().next() else { return Ok(()) };
    let asked_by = found.session_id.as_deref().and_then(|id| id.parse().ok());
    Granting::current(&|| confirmed(&found)).check(asked_by)
}

/// Asks the person at the terminal.
fn confirmed(request: &ApprovalBrief) -> bool {
    let mut err = Stream::stderr();
    let asked = write!(err, "Allow {} to {}? [y/N] ", request.client, one_line(&request.summary));
    let mut line = String::new();
    let read = asked.and_then(|()| err.flush()).and_then(|()| io::stdin().lock().read_line(&mut line));
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}

fn list(out: &mut Stream, listed: &InboxListed) -> io::Result<()> {
    for one in &listed.requests {
        let by = match &one.session_id {
            Some(_) => format!(" of {}", one.client),
            None => String::new(),
        };
        let asks = if one.state == ApprovalState::Open { "asks to" } else { "asked to" };
        writeln!(out, "{}  {}{by} {asks} {}", short(one), one.workspace_name, one_line(&one.summary))?;
        writeln!(
            out,
            "          {}; {} ago; {}",
            one_line(&one.reason),
            age_since(&one.created_at),
            state(one)
        )?;
    }
    if listed.requests.iter().any(|one| one.can_answer && one.state == ApprovalState::Open) {
        writeln!(out)?;
        writeln!(out, "agentiso inbox grant REQUEST              once: for ten minutes")?;
        writeln!(out, "agentiso inbox grant REQUEST --workspace  as long as the workspace exists")?;
        writeln!(out, "agentiso inbox grant REQUEST --always     in all workspaces that ask")?;
        writeln!(
            out,
            "agentiso inbox deny REQUEST               refuse it, for an hour without asking again"
        )?;
    } else if listed.requests.is_empty() {
        writeln!(out, "No requests for approval.")?;
    }
    Ok(())
}

fn state(one: &ApprovalBrief) -> String {
    let scope = one.scope.map(|scope| format!(" ({scope})")).unwrap_or_default();
    match (&one.until, one.state) {
        (Some(until), ApprovalState::Open) => format!("open until {}", time(until)),
        (Some(until), state) => format!("{state}{scope} until {}", time(until)),
        (None, state) => format!("{state}{scope}"),
    }
}

fn answer(out: &mut Stream, one: &ApprovalBrief) -> io::Result<()> {
    let what = match (one.state, one.scope) {
        (ApprovalState::Granted, Some(GrantScope::Always)) => "All workspaces that ask may".to_owned(),
        (ApprovalState::Granted, _) => format!("{} may", one.workspace_name),
        _ => format!("{} may not", one.workspace_name),
    };
    let until = one.until.as_ref().filter(|_| one.state == ApprovalState::Granted);
    let until = until.map(|until| format!(" until {}", time(until))).unwrap_or_default();
    writeln!(out, "{what} {}{until}.", one_line(&one.summary))
}

fn short(one: &ApprovalBrief) -> &str {
    one.request_id.get(..SHORT).unwrap_or(&one.request_id)
}

/// A time without fractions of a second.
fn time(text: &str) -> String {
    format!("{}Z", text.split('.').next().unwrap_or_default().trim_end_matches('Z'))
}
