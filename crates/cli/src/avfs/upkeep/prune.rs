//! `avfs prune`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::{PruneKeep, PruneRequest};
use clap::{ArgGroup, Args};
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::ui::counted;

/// Flags of `prune`.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("how").required(true).args(["keep", "older_than"]),
    after_help = "Checkpoints and forks are kept.\n\nExamples:\n  avfs --vault work prune --keep 100 --dry-run\n  \
                  avfs --vault work prune /log.txt --keep 5"
)]
pub struct Prune {
    /// Only versions of this file, or of the files in this directory
    pub path: Option<OsString>,
    /// Keep this many
    #[arg(long, value_name = "N")]
    pub keep: Option<u64>,
    /// Keep those of this many days
    #[arg(long, value_name = "DAYS")]
    pub older_than: Option<u64>,
    /// All files; this is so anyway without a path
    #[arg(long, hide = true, conflicts_with = "path")]
    pub all: bool,
    /// Only count
    #[arg(long)]
    pub dry_run: bool,
}

/// What was forgotten.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PruneDone {
    files_processed: u64,
    versions_deleted: u64,
    /// Changes of the vault that were forgotten.
    revisions_deleted: u64,
    dry_run: bool,
}

/// Forgets old history.
pub fn prune(context: &Context, flags: Prune) -> Result<u8, Failure> {
    let keep = match (flags.keep, flags.older_than) {
        (Some(newest), _) => PruneKeep::Newest(newest),
        (None, days) => PruneKeep::Days(days.unwrap_or(u64::MAX)),
    };
    let path = flags.path.as_deref().map(path).transpose()?;
    let request = PruneRequest { keep, path, dry_run: flags.dry_run };
    let done = context.vaults()?.prune(&context.vault()?, &request)?;
    let shown = PruneDone {
        files_processed: done.files,
        versions_deleted: done.versions,
        revisions_deleted: done.revisions,
        dry_run: flags.dry_run,
    };
    context.shown.result(&shown, |out| {
        writeln!(
            out,
            "{}, {}",
            counted(shown.versions_deleted, "version"),
            counted(shown.revisions_deleted, "change")
        )
    })?;
    Ok(0)
}
