//! `agentiso snapshot diff`.

use std::io::{self, Write};

use agentiso_core::Failure;
use agentiso_runtime::Installation;
use agentiso_runtime::diff::{Aspect, Change, ChangeKind, Changes, TextDiff};
use agentiso_runtime::workspaces::{CompareRequest, Workspaces};
use serde_json::json;

use crate::args;
use crate::commands::{Held, waiting};
use crate::output::Output;
use crate::ui::{Stream, bytes};

/// Says what changed between two points.
pub async fn diff(installation: &Installation, flags: args::Compare, output: Output) -> Result<u8, Failure> {
    let held = Held::new()?;
    let args::Compare { workspace, before, after, under, file } = flags;
    let request = CompareRequest { workspace, before, after, under };
    match file {
        Some(path) => {
            let found = waiting(output, "Still comparing", async |_| {
                Workspaces::open(installation).await?.compare_file(&request, &path).await
            })
            .await?;
            output.result(&as_json(&path, &found), |out| write_text(out, &request, &path, &found))?;
        }
        None => {
            let changes = waiting(output, "Still comparing", async |_| {
                Workspaces::open(installation).await?.compare(&request).await
            })
            .await?;
            output.result(&changes, |out| write_changes(out, &changes))?;
        }
    }
    Ok(held.exit_code(0))
}

fn as_json(path: &str, found: &TextDiff) -> serde_json::Value {
    match found {
        TextDiff::Same => json!({ "path": path, "same": true }),
        TextDiff::Text { unified, truncated } => {
            json!({ "path": path, "same": false, "diff": unified, "truncated": truncated })
        }
        TextDiff::Binary => json!({ "path": path, "same": false, "binary": true }),
        TextDiff::TooLarge { limit } => json!({ "path": path, "same": false, "larger_than": limit }),
    }
}

fn write_text(out: &mut Stream, request: &CompareRequest, path: &str, found: &TextDiff) -> io::Result<()> {
    match found {
        TextDiff::Same => writeln!(out, "{} is the same.", printable(path.as_bytes())),
        TextDiff::Binary => writeln!(out, "{} differs, and is not text.", printable(path.as_bytes())),
        TextDiff::TooLarge { limit } => {
            writeln!(out, "{} differs, and is larger than {}.", printable(path.as_bytes()), bytes(*limit))
        }
        TextDiff::Text { unified, truncated } => {
            let path = printable(path.as_bytes());
            write!(out, "--- {}{path}\n+++ {}{path}\n{unified}", request.before, request.after)?;
            if *truncated { writeln!(out, "[there is more]") } else { Ok(()) }
        }
    }
}

fn write_changes(out: &mut Stream, changes: &Changes) -> io::Result<()> {
    for change in &changes.entries {
        writeln!(out, "{}", line(change))?;
    }
    let totals = changes.totals;
    writeln!(
        out,
        "{} added, {} removed, {} modified, {} renamed; +{} -{}",
        totals.added,
        totals.removed,
        totals.modified,
        totals.renamed,
        bytes(totals.bytes_added),
        bytes(totals.bytes_removed)
    )
}

/// One change as one line: a letter, the path, and what else there is to say.
fn line(change: &Change) -> String {
    let path = printable(&change.path);
    match &change.kind {
        ChangeKind::Added => format!("A {path}"),
        ChangeKind::Removed => format!("D {path}"),
        ChangeKind::Modified { aspects } => format!("M {path} ({})", listed(aspects)),
        ChangeKind::Renamed { from, aspects } if aspects.is_empty() => {
            format!("R {} -> {path}", printable(from))
        }
        ChangeKind::Renamed { from, aspects } => {
            format!("R {} -> {path} ({})", printable(from), listed(aspects))
        }
    }
}

fn listed<'a>(aspects: impl IntoIterator<Item = &'a Aspect>) -> String {
    let words: Vec<&str> = aspects.into_iter().map(word).collect();
    words.join(", ")
}

fn word(aspect: &Aspect) -> &'static str {
    match aspect {
        Aspect::Content => "content",
        Aspect::Mode => "mode",
        Aspect::Owner => "owner",
        Aspect::Type => "type",
        Aspect::Xattr => "xattr",
        Aspect::Target => "target",
        Aspect::Device => "device",
    }
}

/// A guest's file names may hold anything, escape sequences for terminals too.
fn printable(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().flat_map(shown).collect()
}

fn shown(c: char) -> Box<dyn Iterator<Item = char>> {
    if c.is_control() { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_speak_to_the_terminal() {
        assert_eq!(printable(b"/a\x1b[2Jb\nc"), "/a\\u{1b}[2Jb\\nc");
        assert_eq!(printable("/grün".as_bytes()), "/grün");
    }
}
