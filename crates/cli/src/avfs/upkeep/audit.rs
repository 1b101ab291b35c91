//! `avfs audit`.

use agentiso_core::Failure;
use agentiso_vfs::AuditQuery;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;

use crate::avfs::context::Context;
use crate::avfs::shown;
use crate::ui::{Table, age_since};

/// Flags of `audit`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "With a vault only its entries are shown. Times are seconds since 1970, RFC 3339, or \
                  YYYY-MM-DD.\n\nExamples:\n  avfs audit --limit 20\n  avfs --vault work audit --since 2026-01-31"
)]
pub struct Audit {
    /// Show or remove entries.
    #[command(subcommand)]
    pub verb: Option<AuditVerb>,
    /// Most entries
    #[arg(short, long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// Only entries from this time on
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<Timestamp>,
    /// Only this operation
    #[arg(long)]
    pub operation: Option<String>,
}

/// Commands of `audit`.
#[derive(Debug, Subcommand)]
pub enum AuditVerb {
    /// Remove entries
    Clear {
        /// Only entries from before this time
        #[arg(long, value_name = "TIME", value_parser = time)]
        before: Option<Timestamp>,
    },
}

/// Entries of the audit log, newest first.
#[derive(Debug, JsonSchema, Serialize)]
pub struct AuditLog {
    entries: Vec<Entry>,
    /// How many there are.
    total_count: u64,
}

/// One entry.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Entry {
    id: u64,
    timestamp: String,
    operation: String,
    path: Option<String>,
    /// More about it.
    details: Option<serde_json::Value>,
    vault: Option<String>,
    /// The change of the vault that it was.
    revision: Option<u64>,
    /// Who did it.
    actor: String,
}

/// Entries that were removed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct AuditCleared {
    /// Always `clear`.
    action: String,
    entries_deleted: u64,
}

/// Shows or clears the audit log.
pub fn audit(context: &Context, flags: Audit) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let vault = context.named()?;
    if let Some(AuditVerb::Clear { before }) = flags.verb {
        let cleared = AuditCleared {
            action: "clear".to_owned(),
            entries_deleted: vaults.audit_clear(vault.as_deref(), before)?,
        };
        context.shown.result(&cleared, |out| writeln!(out, "Removed {} entries", cleared.entries_deleted))?;
        return Ok(0);
    }
    let query = AuditQuery {
        vault,
        since: flags.since,
        operation: flags.operation,
        limit: flags.limit,
        ..AuditQuery::default()
    };
    let page = vaults.audit(&query)?;
    let entry = |one: agentiso_vfs::AuditEntry| Entry {
        id: one.id,
        timestamp: one.at.to_string(),
        operation: one.operation,
        path: one.path.as_ref().map(shown::path),
        // Details that are no JSON are shown as text.
        details: one.detail.map(|text| serde_json::from_str(&text).unwrap_or_else(|_| text.into())),
        vault: one.vault_name,
        revision: one.revision,
        actor: one.actor,
    };
    let log = AuditLog { total_count: page.total, entries: page.entries.into_iter().map(entry).collect() };
    context.shown.result(&log, |out| {
        let mut table = Table::new(["ID", "WHEN", "VAULT", "WHAT", "PATH", "WHO"]);
        for one in &log.entries {
            let command = one.details.as_ref().and_then(|details| details["command"].as_str());
            table.row([
                one.id.to_string(),
                age_since(&one.timestamp),
                one.vault.clone().unwrap_or_default(),
                one.operation.clone(),
                one.path.as_deref().or(command).unwrap_or_default().to_owned(),
                one.actor.clone(),
            ]);
        }
        table.write(out)
    })?;
    Ok(0)
}

/// Reads a time.
fn time(given: &str) -> Result<Timestamp, String> {
    if let Ok(seconds) = given.parse::<i64>()
        && let Ok(time) = Timestamp::from_second(seconds)
    {
        return Ok(time);
    }
    if let Ok(time) = given.parse::<Timestamp>() {
        return Ok(time);
    }
    let day = given.parse::<Date>().ok().and_then(|date| date.to_zoned(TimeZone::system()).ok());
    day.map(|day| day.timestamp())
        .ok_or_else(|| "give seconds since 1970, RFC 3339, or YYYY-MM-DD".to_owned())
}
