//! `avfs stats`.

use std::io::Write;

use agentiso_core::Failure;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;
use crate::avfs::shown::human;
use crate::ui::counted;

/// Flags of `stats`.
#[derive(Args, Debug)]
#[command(
    after_help = "With a vault its files and history are counted; otherwise those of all vaults. Contents are stored \
                  once for all vaults.\n\nExample:\n  avfs stats"
)]
pub struct Stats {}

/// Counts and sizes.
#[derive(Debug, JsonSchema, Serialize)]
pub struct StatsShown {
    /// Number of vaults.
    vaults: u64,
    files: u64,
    directories: u64,
    /// Versions of files that are recorded.
    total_versions: u64,
    /// Changes that are recorded.
    revisions: u64,
    checkpoints: u64,
    /// Size of all files, each vault counted by itself.
    total_size_bytes: u64,
    total_size_bytes_human: String,
    /// Contents in the store, which all vaults share.
    content_blobs: u64,
    /// Contents that no vault needs.
    orphaned_blobs: u64,
    orphaned_bytes: u64,
    orphaned_bytes_human: String,
    /// Everything on disk.
    db_size_bytes: u64,
    db_size_bytes_human: String,
    /// Commands that run.
    uses: u64,
}

/// Shows counts and sizes.
pub fn stats(context: &Context, _: Stats) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let found = vaults.stats(context.named()?.as_deref())?;
    let garbage = context.garbage()?;
    let shown = StatsShown {
        vaults: found.vaults,
        files: found.totals.files,
        directories: found.totals.directories,
        total_versions: found.versions,
        revisions: found.revisions,
        checkpoints: found.checkpoints,
        total_size_bytes: found.totals.bytes,
        total_size_bytes_human: human(found.totals.bytes),
        content_blobs: found.store.kinds.iter().map(|kind| kind.objects).sum(),
        orphaned_blobs: garbage.garbage_objects,
        orphaned_bytes: garbage.garbage_bytes,
        orphaned_bytes_human: human(garbage.garbage_bytes),
        db_size_bytes: found.disk_bytes(),
        db_size_bytes_human: human(found.disk_bytes()),
        uses: found.uses,
    };
    context.shown.result(&shown, |out| {
        writeln!(out, "vaults       {}", shown.vaults)?;
        writeln!(
            out,
            "files        {} in {}, {}",
            shown.files,
            counted(shown.directories, "directory"),
            shown.total_size_bytes_human
        )?;
        let (changes, checkpoints) =
            (counted(shown.revisions, "change"), counted(shown.checkpoints, "checkpoint"));
        writeln!(out, "history      {changes}, {checkpoints}")?;
        writeln!(out, "on disk      {}", shown.db_size_bytes_human)?;
        writeln!(
            out,
            "not needed   {} ({})",
            shown.orphaned_bytes_human,
            counted(shown.orphaned_blobs, "object")
        )
    })?;
    Ok(0)
}
