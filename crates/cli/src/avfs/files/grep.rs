//! `avfs grep`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::GrepQuery;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Flags of `grep`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0 whether anything matches or not.\n\nExample:\n  \
                  avfs --vault work grep -n 'TODO|FIXME' /src")]
pub struct Grep {
    /// A regular expression
    pub pattern: String,
    /// A directory or file
    #[arg(default_value = "/")]
    pub path: OsString,
    /// Upper and lower case are the same
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Show line numbers
    #[arg(short = 'n', long)]
    pub line_number: bool,
    /// Most matches
    #[arg(short, long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
    /// Only files whose names match this pattern
    #[arg(long, value_name = "GLOB")]
    pub name: Option<String>,
}

/// Lines that match.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Matches {
    pattern: String,
    /// How many matches are shown.
    count: usize,
    matches: Vec<Match>,
    /// Whether there are more.
    truncated: bool,
    /// Files that were searched.
    files_searched: u64,
    /// Files that were not, because they are not text or too large.
    files_skipped: u64,
}

/// One line.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Match {
    path: String,
    line_number: u64,
    /// The line. A long one is cut.
    line: String,
}

/// Finds lines.
pub fn grep(context: &Context, flags: Grep) -> Result<u8, Failure> {
    let query = GrepQuery {
        path: path(&flags.path)?,
        ignore_case: flags.ignore_case,
        name: flags.name,
        limit: flags.limit,
        ..GrepQuery::new(&flags.pattern)
    };
    let found = context.view()?.grep(&query)?;
    for (path, reason) in &found.unreadable {
        context.shown.note(&format!("{path} was not searched: {reason}"));
    }
    let matches: Vec<Match> = found
        .matches
        .iter()
        .map(|one| Match {
            path: shown::path(&one.path),
            line_number: one.line,
            line: String::from_utf8_lossy(&one.text).into_owned(),
        })
        .collect();
    let matches = Matches {
        pattern: flags.pattern,
        count: matches.len(),
        matches,
        truncated: found.is_truncated,
        files_searched: found.searched,
        files_skipped: found.binary + found.too_large + found.unreadable.len() as u64,
    };
    context.shown.result(&matches, |out| {
        for one in &matches.matches {
            match flags.line_number {
                true => writeln!(out, "{}:{}:{}", one.path, one.line_number, one.line)?,
                false => writeln!(out, "{}:{}", one.path, one.line)?,
            }
        }
        Ok(())
    })?;
    Ok(0)
}
