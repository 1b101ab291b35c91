//! `avfs checkpoint restore`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::{Restore, StateRef};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::ui::counted;

/// Flags of `checkpoint restore`.
#[derive(Args, Debug)]
#[command(
    after_help = "The state before is kept as a checkpoint, so a restore can be undone by another one.\n\nExamples:\n  \
                  avfs --vault work checkpoint restore before-change\n  \
                  avfs --vault work checkpoint restore before-change --path /src --path /Cargo.toml"
)]
pub struct RestoreFlags {
    /// The checkpoint, or a revision such as r17
    pub name: StateRef,
    /// Only this path and what is below it; can be repeated
    #[arg(long, short, value_name = "PATH")]
    pub path: Vec<OsString>,
    /// Restore although commands run in the vault
    #[arg(long, short)]
    pub force: bool,
}

/// What a restore did.
#[derive(Debug, JsonSchema, Serialize)]
pub struct RestoredSnapshot {
    /// The checkpoint that was restored.
    snapshot: String,
    /// Files that were brought back or changed.
    files_restored: u64,
    /// Directories that were brought back or changed.
    dirs_restored: u64,
    /// Files and directories that were removed.
    removed: u64,
    /// The checkpoint with the state before; null if nothing changed.
    undo: Option<String>,
    /// Whether anything changed.
    changed: bool,
    /// The number of the last change.
    revision: u64,
}

/// Restores a checkpoint.
pub fn restore(context: &Context, flags: RestoreFlags) -> Result<u8, Failure> {
    let vault = context.vault()?;
    let snapshot = match &flags.name {
        StateRef::Now => "now".to_owned(),
        StateRef::Checkpoint(name) => name.clone(),
        StateRef::Revision(number) => format!("r{number}"),
        StateRef::Tree(tree) => tree.to_string(),
    };
    let request = Restore {
        state: flags.name,
        paths: flags.path.iter().map(|given| path(given)).collect::<Result<_, _>>()?,
        force: flags.force,
    };
    let done = context.vaults()?.restore(&vault, &request)?;
    let restored = RestoredSnapshot {
        snapshot,
        files_restored: done.files,
        dirs_restored: done.directories,
        removed: done.removed,
        undo: done.undo.map(|undo| undo.name),
        changed: done.changed.is_changed,
        revision: done.changed.revision,
    };
    context.shown.result(&restored, |out| {
        writeln!(
            out,
            "Restored {}: {}, {}, {} removed",
            restored.snapshot,
            counted(restored.files_restored, "file"),
            counted(restored.dirs_restored, "directory"),
            restored.removed
        )?;
        match &restored.undo {
            Some(undo) => writeln!(out, "To undo: avfs checkpoint restore {undo}"),
            None => Ok(()),
        }
    })?;
    Ok(0)
}
