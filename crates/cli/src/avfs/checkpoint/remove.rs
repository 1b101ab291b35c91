//! `avfs checkpoint rm`.

use std::io::Write;

use agentiso_core::Failure;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;

/// Flags of `checkpoint rm`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work checkpoint rm before-change")]
pub struct Remove {
    /// The checkpoint
    pub name: String,
}

/// A checkpoint that was removed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct RemovedSnapshot {
    /// Always `delete`.
    action: String,
    name: String,
}

/// Removes a checkpoint.
pub fn remove(context: &Context, flags: Remove) -> Result<u8, Failure> {
    let removed = context.vaults()?.remove_checkpoint(&context.vault()?, &flags.name)?;
    let removed = RemovedSnapshot { action: "delete".to_owned(), name: removed.name };
    context.shown.result(&removed, |out| writeln!(out, "Removed checkpoint {}", removed.name))?;
    Ok(0)
}
