//! `avfs undo` and `avfs redo`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::Undone;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;

/// Flags of `undo`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work undo")]
pub struct Undo {
    /// How many changes to undo
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    pub count: u64,
}

/// Flags of `redo`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work redo")]
pub struct Redo {}

/// A change that was undone or repeated.
#[derive(Debug, JsonSchema, Serialize)]
pub struct UndoneChange {
    /// The state the vault has again.
    target: u64,
    /// What was undone or repeated.
    operation: String,
    /// The number of this change.
    revision: u64,
    /// Whether any file changed.
    changed: bool,
}

/// Undoes changes.
pub fn undo(context: &Context, flags: Undo) -> Result<u8, Failure> {
    show(context, &context.vaults()?.undo(&context.vault()?, flags.count)?)
}

/// Repeats changes.
pub fn redo(context: &Context, _: Redo) -> Result<u8, Failure> {
    show(context, &context.vaults()?.redo(&context.vault()?)?)
}

fn show(context: &Context, done: &Undone) -> Result<u8, Failure> {
    let done = UndoneChange {
        target: done.target,
        operation: done.operation.clone(),
        revision: done.changed.revision,
        changed: done.changed.is_changed,
    };
    context.shown.result(&done, |out| {
        writeln!(out, "The vault is as it was at r{} ({})", done.target, done.operation)
    })?;
    Ok(0)
}
