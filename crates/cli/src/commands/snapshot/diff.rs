//! `agentiso snapshot diff`.

use std::io::{self, Write};

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{ChangeKind, FileChange, SnapshotCompared, SnapshotDiff};

use crate::args;
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::Stream;

/// All the daemon gives.
const MOST: usize = 100_000;

/// Says what changed between two points.
pub async fn diff(here: &Paths, flags: args::Compare, output: Output) -> Result<u8, Failure> {
    let args::Compare { workspace, before, after, under, file } = flags;
    let request = SnapshotDiff {
        workspace_id: workspace,
        snapshot_name: before,
        other: Some(after.clone()),
        path: under,
        file,
        max_results: Some(MOST),
    };
    let found = Daemon::reach(here, output).await?.change("Still comparing", &request).await?;
    output.result(&found, |out| match (&found.diff, &request.file) {
        (Some(text), Some(path)) => write_text(out, &request.snapshot_name, &after, path, text),
        _ => write_changes(out, &found),
    })?;
    Ok(0)
}

fn write_text(out: &mut Stream, before: &str, after: &str, path: &str, text: &str) -> io::Result<()> {
    let path = printable(path);
    if !text.starts_with("@@") {
        return writeln!(out, "{path}: {text}");
    }
    write!(out, "--- {before}{path}\n+++ {after}{path}\n{text}")
}

fn write_changes(out: &mut Stream, found: &SnapshotCompared) -> io::Result<()> {
    for change in &found.changes {
        writeln!(out, "{}", line(change))?;
    }
    if found.truncated {
        writeln!(
            out,
            "[only the first {} are shown; use --under to select a directory]",
            found.changes.len()
        )?;
    }
    let SnapshotCompared { added, removed, modified, renamed, unreadable, .. } = found;
    write!(out, "{added} added, {removed} removed, {modified} modified, {renamed} renamed")?;
    match unreadable {
        0 => writeln!(out),
        count => writeln!(out, ", {count} could not be read because the file system is damaged"),
    }
}

/// One change as one line: a letter, the path, and what else there is to say.
fn line(change: &FileChange) -> String {
    let path = printable(&change.path);
    let what = if change.what.is_empty() { String::new() } else { format!(" ({})", change.what.join(", ")) };
    match (change.change, &change.from) {
        (ChangeKind::Added, _) => format!("A {path}"),
        (ChangeKind::Removed, _) => format!("D {path}"),
        (ChangeKind::Unreadable, _) => format!("! {path}{what}"),
        (ChangeKind::Renamed, Some(from)) => format!("R {} -> {path}{what}", printable(from)),
        _ => format!("M {path}{what}"),
    }
}

/// A guest's file names may hold anything, escape sequences for terminals too.
fn printable(path: &str) -> String {
    path.chars().flat_map(shown).collect()
}

fn shown(c: char) -> Box<dyn Iterator<Item = char>> {
    if c.is_control() { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_speak_to_the_terminal() {
        assert_eq!(printable("/a\x1b[2Jb\nc"), "/a\\u{1b}[2Jb\\nc");
        assert_eq!(printable("/grün"), "/grün");
    }

    #[test]
    fn every_kind_of_change_is_one_line() {
        let change = |kind: ChangeKind, what: &[&str], from: Option<&str>| FileChange {
            path: "/b".to_owned(),
            change: kind,
            what: what.iter().map(|&word| word.to_owned()).collect(),
            from: from.map(str::to_owned),
            old_size: None,
            new_size: None,
        };
        assert_eq!(line(&change(ChangeKind::Added, &[], None)), "A /b");
        assert_eq!(line(&change(ChangeKind::Removed, &[], None)), "D /b");
        assert_eq!(line(&change(ChangeKind::Modified, &["content", "mode"], None)), "M /b (content, mode)");
        assert_eq!(line(&change(ChangeKind::Unreadable, &["inode 24"], None)), "! /b (inode 24)");
        assert_eq!(line(&change(ChangeKind::Renamed, &[], Some("/a"))), "R /a -> /b");
    }
}
