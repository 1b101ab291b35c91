//! Differences of files, line by line.

use std::io::{self, Write};

use agentiso_vfs::{FileDiff, LineKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ui::Stream;

/// How two files differ.
#[derive(Debug, JsonSchema, Serialize)]
pub struct FileDifference {
    pub path1: String,
    pub path2: String,
    /// The version of the first file; null for the present one.
    pub version1: Option<String>,
    /// The version of the second file; null for the present one.
    pub version2: Option<String>,
    pub identical: bool,
    /// Whether a file is not text. Then there are no lines.
    pub binary: bool,
    /// Changed lines with some around them.
    pub diff: Vec<DiffLine>,
}

/// A line.
#[derive(Debug, JsonSchema, Serialize)]
pub struct DiffLine {
    /// `add`, `remove` or `context`.
    pub line_type: String,
    /// Its number in the second file; in the first if it was removed.
    pub line_num: u64,
    /// The line without its end.
    pub content: String,
}

/// The JSON form of a difference.
pub fn lines(diff: &FileDiff) -> Vec<DiffLine> {
    let lines = diff.hunks.iter().flat_map(|hunk| &hunk.lines);
    let line = lines.map(|line| DiffLine {
        line_type: match line.kind {
            LineKind::Add => "add",
            LineKind::Remove => "remove",
            LineKind::Context => "context",
        }
        .to_owned(),
        line_num: line.new_line.or(line.old_line).unwrap_or_default(),
        content: text(&line.text),
    });
    line.collect()
}

/// Shows a difference as `diff -u` does.
pub fn unified(out: &mut Stream, shown: &FileDifference, diff: &FileDiff) -> io::Result<()> {
    if shown.identical {
        return writeln!(out, "{} is the same", shown.path2);
    }
    if shown.binary {
        return writeln!(out, "{} differs, and is not text", shown.path2);
    }
    let name = |path: &str, version: &Option<String>| match version {
        Some(version) => format!("{path} (version {version})"),
        None => path.to_owned(),
    };
    let paint = out.paint();
    writeln!(out, "{}", paint.strong(&format!("--- {}", name(&shown.path1, &shown.version1))))?;
    writeln!(out, "{}", paint.strong(&format!("+++ {}", name(&shown.path2, &shown.version2))))?;
    for hunk in &diff.hunks {
        let head = format!("@@ -{},{} +{},{} @@", hunk.old_start, hunk.old_len, hunk.new_start, hunk.new_len);
        writeln!(out, "{}", paint.faint(&head))?;
        for line in &hunk.lines {
            let content = text(&line.text);
            match line.kind {
                LineKind::Add => writeln!(out, "{}", paint.good(&format!("+{content}")))?,
                LineKind::Remove => writeln!(out, "{}", paint.bad(&format!("-{content}")))?,
                LineKind::Context => writeln!(out, " {content}")?,
            }
        }
    }
    Ok(())
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}
