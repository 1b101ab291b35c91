//! `avfs checkpoint info`.

use std::io::Write;

use agentiso_core::Failure;
use clap::Args;

use super::Snapshot;
use crate::avfs::context::Context;
use crate::ui::counted;

/// Flags of `checkpoint info`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work checkpoint info before-change")]
pub struct Info {
    /// The checkpoint
    pub name: String,
}

/// Shows a checkpoint.
pub fn info(context: &Context, flags: Info) -> Result<u8, Failure> {
    let one = Snapshot::from(context.vaults()?.checkpoint(&context.vault()?, &flags.name)?);
    context.shown.result(&one, |out| {
        writeln!(out, "name         {}", one.name)?;
        writeln!(out, "kind         {}", one.kind)?;
        writeln!(out, "created      {} by {}", one.created_at, one.actor)?;
        writeln!(out, "content      {}, {}", counted(one.file_count, "file"), one.total_size_human)?;
        writeln!(out, "revision     {}", one.revision)?;
        match &one.description {
            Some(description) => writeln!(out, "description  {description}"),
            None => Ok(()),
        }
    })?;
    Ok(0)
}
