//! `avfs checkpoint`, also called `snapshot`.

mod diff;
mod info;
mod list;
mod remove;
mod restore;
mod save;

use agentiso_core::Failure;
use agentiso_vfs::Checkpoint;
use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::context::Context;
use super::shown::human;

pub use list::Snapshots;
pub use remove::RemovedSnapshot;
pub use restore::RestoredSnapshot;

/// Commands of `checkpoint`.
#[derive(Debug, Subcommand)]
pub enum CheckpointVerb {
    /// Save the present state
    Save(save::Save),
    /// List checkpoints, oldest first
    #[command(name = "ls", alias = "list")]
    List(list::List),
    /// Go back to a checkpoint, with all files or some
    Restore(restore::RestoreFlags),
    /// Remove a checkpoint
    #[command(name = "rm", alias = "delete")]
    Remove(remove::Remove),
    /// Show what changed since a checkpoint, or between two
    Diff(diff::Diff),
    /// Show details of a checkpoint
    Info(info::Info),
}

/// Performs a command of `checkpoint`.
pub fn checkpoint(context: &Context, verb: CheckpointVerb) -> Result<u8, Failure> {
    match verb {
        CheckpointVerb::Save(flags) => save::save(context, flags),
        CheckpointVerb::List(flags) => list::list(context, flags),
        CheckpointVerb::Restore(flags) => restore::restore(context, flags),
        CheckpointVerb::Remove(flags) => remove::remove(context, flags),
        CheckpointVerb::Diff(flags) => diff::diff(context, flags),
        CheckpointVerb::Info(flags) => info::info(context, flags),
    }
}

/// A checkpoint.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Snapshot {
    pub name: String,
    pub created_at: String,
    pub file_count: u64,
    pub total_size: u64,
    pub total_size_human: String,
    pub description: Option<String>,
    /// `user`, `auto` before a command, `undo` before a restore, or `conflict` for what could not be merged.
    pub kind: String,
    /// Identifies its content.
    pub tree: String,
    /// The number of the last change that it has.
    pub revision: u64,
    pub tags: Vec<String>,
    /// Who made it.
    pub actor: String,
    /// Whether it was made in a vault that this one was forked from.
    pub inherited: bool,
}

impl Answer for Snapshot {
    const NAME: &'static str = "checkpoint";
}

impl From<Checkpoint> for Snapshot {
    fn from(one: Checkpoint) -> Self {
        Self {
            name: one.name,
            created_at: one.created_at.to_string(),
            file_count: one.totals.files,
            total_size: one.totals.bytes,
            total_size_human: human(one.totals.bytes),
            description: one.description,
            kind: one.kind.as_str().to_owned(),
            tree: one.tree.to_string(),
            revision: one.revision,
            tags: one.tags,
            actor: one.actor,
            inherited: one.is_inherited,
        }
    }
}
