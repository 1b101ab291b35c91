//! `avfs tag` and `avfs untag`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::{Code, Failure};
use agentiso_vfs::FileOp;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Flags of `tag`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  avfs --vault work tag /data.csv raw\n  avfs --vault work tag /data.csv\n  \
                  avfs --vault work tag --list-all\n  avfs --vault work tag --rename raw:source"
)]
pub struct Tag {
    /// The file
    pub path: Option<OsString>,
    /// The tag to add; without it the tags of the file are shown
    pub tag: Option<String>,
    /// Show the tags of the file
    #[arg(short, long, conflicts_with = "tag")]
    pub list: bool,
    /// Show all tags of the vault
    #[arg(long, conflicts_with_all = ["path", "list"])]
    pub list_all: bool,
    /// Tags need not be made before they are used; without effect
    #[arg(long, hide = true)]
    pub create: Option<String>,
    /// Remove a tag from all files
    #[arg(long, value_name = "TAG", conflicts_with_all = ["path", "list_all"])]
    pub delete: Option<String>,
    /// Rename a tag
    #[arg(long, value_name = "OLD:NEW", conflicts_with_all = ["path", "list_all", "delete"])]
    pub rename: Option<String>,
}

/// Flags of `untag`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work untag /data.csv raw")]
pub struct Untag {
    /// The file
    pub path: OsString,
    /// The tag
    pub tag: String,
}

/// A changed tag.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TagChanged {
    /// The file; null if the tag was removed from all.
    path: Option<String>,
    tag: String,
    /// `added`, `removed`, `deleted`, or `unchanged`.
    action: String,
}

/// The tags of a file.
#[derive(Debug, JsonSchema, Serialize)]
pub struct FileTags {
    path: String,
    tags: Vec<String>,
}

/// All tags of a vault.
#[derive(Debug, JsonSchema, Serialize)]
pub struct AllTags {
    count: usize,
    tags: Vec<TagCount>,
}

/// A tag.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TagCount {
    name: String,
    file_count: u64,
}

/// A renamed tag.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TagRenamed {
    old_name: String,
    new_name: String,
    /// `renamed`, or `unchanged` if no file has it.
    action: String,
}

/// Adds, shows, renames and removes tags.
pub fn tag(context: &Context, flags: Tag) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let vault = context.vault()?;
    if let Some(name) = flags.delete {
        let changed = vaults.delete_tag(&vault, &name)?;
        return changed_tag(context, None, name, if changed.is_changed { "deleted" } else { "unchanged" });
    }
    if let Some(pair) = flags.rename {
        let (old, new) = pair
            .split_once(':')
            .ok_or_else(|| Failure::new(Code::InvalidArgument, "a tag is renamed with --rename OLD:NEW"))?;
        let changed = vaults.rename_tag(&vault, old, new)?;
        let renamed = TagRenamed {
            old_name: old.to_owned(),
            new_name: new.to_owned(),
            action: if changed.is_changed { "renamed" } else { "unchanged" }.to_owned(),
        };
        context.shown.result(&renamed, |out| writeln!(out, "{} {old} to {new}", renamed.action))?;
        return Ok(0);
    }
    match (flags.path, flags.tag) {
        (Some(given), Some(tag)) => {
            let at = path(&given)?;
            let op = FileOp::AddTag { path: at.clone(), tag: tag.clone() };
            let changed = vaults.change(&vault, &[op])?;
            let action = if changed.is_changed { "added" } else { "unchanged" };
            changed_tag(context, Some(shown::path(&at)), tag, action)
        }
        (Some(given), None) => {
            let at = path(&given)?;
            let view = context.view()?;
            view.stat(&at, false)?;
            let tags = FileTags { path: shown::path(&at), tags: view.tags(&at).into_iter().collect() };
            context.shown.result(&tags, |out| tags.tags.iter().try_for_each(|tag| writeln!(out, "{tag}")))?;
            Ok(0)
        }
        (None, _) => {
            let tags = context.view()?.all_tags().into_iter();
            let tags: Vec<TagCount> = tags.map(|(name, file_count)| TagCount { name, file_count }).collect();
            let all = AllTags { count: tags.len(), tags };
            context.shown.result(&all, |out| {
                all.tags.iter().try_for_each(|tag| writeln!(out, "{}\t{}", tag.name, tag.file_count))
            })?;
            Ok(0)
        }
    }
}

/// Removes a tag.
pub fn untag(context: &Context, flags: Untag) -> Result<u8, Failure> {
    let at = path(&flags.path)?;
    let op = FileOp::RemoveTag { path: at.clone(), tag: flags.tag.clone() };
    context.vaults()?.change(&context.vault()?, &[op])?;
    changed_tag(context, Some(shown::path(&at)), flags.tag, "removed")
}

fn changed_tag(context: &Context, path: Option<String>, tag: String, action: &str) -> Result<u8, Failure> {
    let changed = TagChanged { path, tag, action: action.to_owned() };
    context.shown.result(&changed, |out| match &changed.path {
        Some(path) => writeln!(out, "{path}: tag {} {action}", changed.tag),
        None => writeln!(out, "tag {} {action}", changed.tag),
    })?;
    Ok(0)
}
