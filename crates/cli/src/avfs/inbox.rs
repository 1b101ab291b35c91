//! `avfs inbox`: requests for approval.

use std::io::{self, BufRead, Write};

use agentiso_core::Failure;
use agentiso_core::approval::{Answer as Answered, Approval, ApprovalState, GrantScope};
use agentiso_proxy::{Approvals, Granting};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;

use super::context::Context;
use crate::ui::{Stream, age_since, one_line};

/// Flags of `inbox`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Requests can be named by the first six or more characters of their ids. A request cannot be granted \
                  from the session that asked, unless a person confirms it at a terminal. agentiso inbox shows and \
                  answers the same requests.\n\nExamples:\n  avfs inbox\n  avfs inbox grant 1f3a90c2\n  \
                  avfs inbox deny 1f3a90c2"
)]
pub struct Inbox {
    /// List or answer requests.
    #[command(subcommand)]
    pub verb: Option<InboxVerb>,
}

/// Commands of `inbox`.
#[derive(Debug, Subcommand)]
pub enum InboxVerb {
    /// List requests
    #[command(name = "list", alias = "ls")]
    List {
        /// Also those that were answered or expired
        #[arg(long, short)]
        all: bool,
    },
    /// Grant a request: once, within ten minutes
    Grant {
        /// The id of the request
        request: String,
        /// The same command in the same vault, as often as it is run
        #[arg(long)]
        always: bool,
    },
    /// Deny a request; equal ones are refused for an hour
    Deny {
        /// The id of the request
        request: String,
    },
}

/// Requests for approval, newest first.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Requests(Vec<Request>);

/// A request for approval.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Request {
    /// Its id, which is the token for `--approve`.
    request_id: String,
    state: ApprovalState,
    /// What it asks for, in words.
    summary: String,
    /// Exactly what it asks for.
    asked: serde_json::Value,
    /// Why it needs approval.
    reason: String,
    /// The workspace it is about; for a vault `vault-NAME`.
    workspace: String,
    /// Who asks.
    client: String,
    /// How far it was granted.
    scope: Option<GrantScope>,
    created_at: String,
    /// When its state ends.
    until: Option<String>,
    /// Identifies exactly what was asked for.
    digest: String,
}

/// Lists or answers requests.
pub fn inbox(context: &Context, flags: Inbox) -> Result<u8, Failure> {
    let queue = Approvals::new(context.places.database.clone(), context.clock());
    match flags.verb.unwrap_or(InboxVerb::List { all: false }) {
        InboxVerb::List { all } => {
            let listed = queue.list(all)?;
            let requests = Requests(listed.iter().map(|one| request(&queue, one)).collect());
            context.shown.result(&requests, |out| show(out, &requests))?;
        }
        InboxVerb::Grant { request: reference, always } => {
            let found = queue.find(&reference)?;
            let confirm = || confirmed(&found);
            let granting = Granting::current(&confirm);
            let scope = if always { GrantScope::Workspace } else { GrantScope::Once };
            let answered = queue.answer(&reference, Answered::Grant(scope), &granting)?;
            answer(context, &queue, &answered)?;
        }
        InboxVerb::Deny { request: reference } => {
            let granting = Granting::current(&|| false);
            let answered = queue.answer(&reference, Answered::Deny, &granting)?;
            answer(context, &queue, &answered)?;
        }
    }
    Ok(0)
}

fn request(queue: &Approvals<'_>, one: &Approval) -> Request {
    Request {
        request_id: one.id.to_string(),
        state: one.state,
        summary: one.asked.to_string(),
        asked: serde_json::json!(one.asked),
        reason: one.reason.clone(),
        workspace: one.workspace_name.to_string(),
        client: one.client.clone(),
        scope: one.scope,
        created_at: queue.shown(one.created),
        until: one.until.map(|until| queue.shown(until)),
        digest: one.digest.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn answer(context: &Context, queue: &Approvals<'_>, answered: &Approval) -> Result<(), Failure> {
    let shown = request(queue, answered);
    context.shown.result(&shown, |out| {
        let may = if shown.state == ApprovalState::Granted { "may" } else { "may not" };
        writeln!(out, "{} {may} {}", shown.client, one_line(&shown.summary))
    })
}

fn show(out: &mut Stream, requests: &Requests) -> io::Result<()> {
    if requests.0.is_empty() {
        return writeln!(out, "No requests for approval.");
    }
    for one in &requests.0 {
        let id = one.request_id.get(..8).unwrap_or(&one.request_id);
        writeln!(out, "{id}  {}  {} asks to {}", one.state, one.client, one_line(&one.summary))?;
        writeln!(out, "          {}; {} ago", one_line(&one.reason), age_since(&one.created_at))?;
    }
    writeln!(out, "\navfs inbox grant REQUEST   once, within ten minutes")?;
    writeln!(out, "avfs inbox deny REQUEST    refuse it, for an hour without asking again")
}

/// Asks the person at the terminal.
fn confirmed(request: &Approval) -> bool {
    let mut err = Stream::stderr();
    let asked = write!(err, "Allow {} to {}? [y/N] ", request.client, one_line(&request.asked.to_string()));
    let mut line = String::new();
    let read = asked.and_then(|()| err.flush()).and_then(|()| io::stdin().lock().read_line(&mut line));
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}
