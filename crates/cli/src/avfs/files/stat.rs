//! `avfs stat`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown::{Entry, human};
use crate::ui::counted;

/// Flags of `stat`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work stat /README.md")]
pub struct StatFlags {
    /// The file or directory
    pub path: OsString,
    /// Follow a symbolic link
    #[arg(short = 'L', long)]
    pub follow: bool,
}

/// Details of a file or directory.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Details {
    #[serde(flatten)]
    entry: Entry,
    uid: u32,
    gid: u32,
    /// Identifies the content of a file.
    hash: Option<String>,
    /// Whether it has extended attributes.
    attributes: bool,
    /// Whether the file has other names.
    linked: bool,
    /// Number of entries of a directory.
    entries: Option<u64>,
    tags: Vec<String>,
}

/// Shows details.
pub fn stat(context: &Context, flags: StatFlags) -> Result<u8, Failure> {
    let view = context.view()?;
    let at = path(&flags.path)?;
    let stat = view.stat(&at, flags.follow)?;
    let details = Details {
        entry: Entry::from(&stat),
        uid: stat.uid,
        gid: stat.gid,
        hash: stat.hash,
        attributes: stat.has_attributes,
        linked: stat.is_linked,
        entries: stat.entries,
        tags: view.tags(&stat.path).into_iter().collect(),
    };
    context.shown.result(&details, |out| {
        let entry = &details.entry;
        writeln!(out, "path      {}", entry.path)?;
        writeln!(out, "type      {}", entry.kind)?;
        writeln!(out, "size      {} ({})", human(entry.size), counted(entry.size, "byte"))?;
        writeln!(out, "mode      {} ({})", entry.letters(), entry.mode)?;
        writeln!(out, "owner     {}:{}", details.uid, details.gid)?;
        writeln!(out, "modified  {}", entry.modified)?;
        if let Some(hash) = &details.hash {
            writeln!(out, "hash      {hash}")?;
        }
        if let Some(target) = &entry.target {
            writeln!(out, "target    {target}")?;
        }
        if !details.tags.is_empty() {
            writeln!(out, "tags      {}", details.tags.join(", "))?;
        }
        Ok(())
    })?;
    Ok(0)
}
