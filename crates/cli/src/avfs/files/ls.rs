//! `avfs ls`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::{Stat, View};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown::{Entry, human, is_directory};

/// Flags of `ls`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  avfs --vault work ls /src\n  avfs --vault work ls -lR --json")]
pub struct Ls {
    /// The directory, or a file
    #[arg(default_value = "/")]
    pub path: OsString,
    /// Show permissions, sizes and times
    #[arg(short)]
    pub long: bool,
    /// Show hidden files; they are always shown
    #[arg(short, hide = true)]
    pub all: bool,
    /// List directories in it too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Newest first
    #[arg(short = 't', conflicts_with = "by_size")]
    pub by_time: bool,
    /// Largest first
    #[arg(short = 'S')]
    pub by_size: bool,
}

/// The entries of a directory.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Listing(Vec<Entry>);

/// Lists a directory.
pub fn ls(context: &Context, flags: Ls) -> Result<u8, Failure> {
    let view = context.view()?;
    let at = path(&flags.path)?;
    let stat = view.stat(&at, true)?;
    let mut found = Vec::new();
    if is_directory(stat.kind) {
        list(&view, &stat, &flags, &mut found)?;
    } else {
        found.push(stat);
    }
    let listing = Listing(found.iter().map(Entry::from).collect());
    context.shown.result(&listing, |out| {
        for entry in &listing.0 {
            let name = if flags.recursive { &entry.path } else { &entry.name };
            let end = if entry.kind == "directory" { "/" } else { "" };
            if flags.long {
                write!(out, "{} {:>10}  {}  ", entry.letters(), human(entry.size), entry.modified)?;
            }
            write!(out, "{name}{end}")?;
            match (&entry.target, flags.long) {
                (Some(target), true) => writeln!(out, " -> {target}")?,
                _ => writeln!(out)?,
            }
        }
        Ok(())
    })?;
    Ok(0)
}

fn list(view: &View, directory: &Stat, flags: &Ls, found: &mut Vec<Stat>) -> Result<(), Failure> {
    let mut entries = view.list(&directory.path)?;
    if flags.by_time {
        entries.sort_by_key(|entry| std::cmp::Reverse((entry.mtime.seconds, entry.mtime.nanos)));
    }
    if flags.by_size {
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.size));
    }
    for entry in entries {
        let deeper = (flags.recursive && is_directory(entry.kind)).then(|| entry.clone());
        found.push(entry);
        if let Some(directory) = deeper {
            list(view, &directory, flags, found)?;
        }
    }
    Ok(())
}
