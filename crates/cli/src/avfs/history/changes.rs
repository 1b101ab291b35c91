//! Changed files.

use std::io::{self, Write};

use agentiso_proxy::change_report;
use agentiso_proxy::envelope::{ChangeKind, ChangeReport};
use agentiso_vfs::Changes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ui::Stream;

/// What changed between two states.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ChangeList {
    /// Whether nothing changed.
    identical: bool,
    /// The changes, ordered by path; the first ones if there are more than the limit.
    changes: Vec<ChangeReport>,
    /// How many there are.
    total: u64,
    /// Whether `changes` is shortened.
    truncated: bool,
}

impl From<&Changes> for ChangeList {
    fn from(changes: &Changes) -> Self {
        Self {
            identical: changes.total == 0,
            changes: changes.list.iter().map(change_report).collect(),
            total: changes.total,
            truncated: changes.list.len() as u64 != changes.total,
        }
    }
}

/// Shows changes, one per line.
pub fn show_changes(out: &mut Stream, list: &ChangeList) -> io::Result<()> {
    if list.identical {
        return writeln!(out, "No changes");
    }
    for one in &list.changes {
        show_change(out, one)?;
    }
    match list.total - list.changes.len() as u64 {
        0 => Ok(()),
        more => writeln!(out, "... and {more} more"),
    }
}

/// Shows one change.
pub fn show_change(out: &mut Stream, one: &ChangeReport) -> io::Result<()> {
    let end = if one.entry == "directory" { "/" } else { "" };
    match (one.kind, &one.old_path) {
        (ChangeKind::Renamed, Some(old)) => writeln!(out, "R {old}{end} -> {}{end}", one.path),
        (ChangeKind::Created, _) => writeln!(out, "A {}{end}", one.path),
        (ChangeKind::Deleted, _) => writeln!(out, "D {}{end}", one.path),
        (_, _) => writeln!(out, "M {}{end}", one.path),
    }
}
