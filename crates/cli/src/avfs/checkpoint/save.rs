//! `avfs checkpoint save`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::SaveCheckpoint;
use clap::Args;

use super::Snapshot;
use crate::avfs::context::Context;
use crate::ui::counted;

/// Flags of `checkpoint save`.
#[derive(Args, Debug)]
#[command(
    after_help = "A checkpoint is a row in a database: it costs the same whatever the size of the vault.\n\n\
                  Examples:\n  avfs --vault work checkpoint save before-change\n  \
                  avfs --vault work checkpoint save -d 'tests pass'"
)]
pub struct Save {
    /// Its name [default: snap-DATE-TIME]
    pub name: Option<String>,
    /// What is special about this state
    #[arg(long, short)]
    pub description: Option<String>,
    /// A word to find it by; can be repeated
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
}

/// Saves a checkpoint.
pub fn save(context: &Context, flags: Save) -> Result<u8, Failure> {
    let vault = context.vault()?;
    context.flush_mounts(&vault)?;
    let request = SaveCheckpoint {
        name: flags.name,
        description: flags.description,
        tags: flags.tag,
        ..SaveCheckpoint::default()
    };
    let saved = Snapshot::from(context.vaults()?.save_checkpoint(&vault, &request)?);
    context.shown.result(&saved, |out| {
        writeln!(
            out,
            "Saved checkpoint {} ({}, {})",
            saved.name,
            counted(saved.file_count, "file"),
            saved.total_size_human
        )
    })?;
    Ok(0)
}
