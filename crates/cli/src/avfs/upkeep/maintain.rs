//! `avfs maintain`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::{MaintainRequest, PruneKeep, VaultStats};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;
use crate::avfs::shown::human;

/// Flags of `maintain`.
#[derive(Args, Debug)]
#[command(
    after_help = "Removes what killed commands left, vaults that have expired and history beyond what vaults keep, then collects and \
                  compacts.\n\nExample:\n  avfs maintain --older-than 30"
)]
pub struct Maintain {
    /// Keep this many changes of each vault
    #[arg(long, value_name = "N", conflicts_with = "older_than")]
    pub keep: Option<u64>,
    /// Keep the changes of this many days
    #[arg(long, value_name = "DAYS")]
    pub older_than: Option<u64>,
    /// Do not collect
    #[arg(long)]
    pub skip_gc: bool,
    /// Do not compact
    #[arg(long)]
    pub skip_compact: bool,
}

/// What was done.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MaintainDone {
    initial_files: u64,
    initial_versions: u64,
    initial_blobs: u64,
    initial_size_bytes: u64,
    final_files: u64,
    final_versions: u64,
    final_blobs: u64,
    final_size_bytes: u64,
    /// Changes of vaults that are not kept any more.
    versions_pruned: u64,
    /// Checkpoints that are not kept any more.
    checkpoints_pruned: u64,
    /// Vaults that had expired.
    vaults_expired: Vec<String>,
    /// Working directories of killed commands that were removed.
    runs_reclaimed: u64,
    orphans_deleted: u64,
    bytes_freed_gc: u64,
    bytes_freed_compact: u64,
}

/// Maintains all vaults.
pub fn maintain(context: &Context, flags: Maintain) -> Result<u8, Failure> {
    let request = MaintainRequest {
        keep: match (flags.keep, flags.older_than) {
            (Some(newest), _) => Some(PruneKeep::Newest(newest)),
            (None, Some(days)) => Some(PruneKeep::Days(days)),
            (None, None) => None,
        },
        skip_gc: flags.skip_gc,
        skip_compact: flags.skip_compact,
    };
    // Before vaults expire: what killed commands and dead mounts had changed belongs to them.
    let vaults = context.vaults()?;
    let runs_reclaimed = agentiso_proxy::reclaim(vaults, &context.places)?;
    let done = vaults.maintain(&request, || context.roots())?;
    let blobs = |stats: &VaultStats| stats.store.kinds.iter().map(|kind| kind.objects).sum();
    let collected = done.gc.as_ref().and_then(|gc| gc.collected.as_ref());
    let shown = MaintainDone {
        initial_files: done.before.totals.files,
        initial_versions: done.before.versions,
        initial_blobs: blobs(&done.before),
        initial_size_bytes: done.before.disk_bytes(),
        final_files: done.after.totals.files,
        final_versions: done.after.versions,
        final_blobs: blobs(&done.after),
        final_size_bytes: done.after.disk_bytes(),
        versions_pruned: done.revisions,
        checkpoints_pruned: done.checkpoints,
        vaults_expired: done.expired,
        runs_reclaimed,
        orphans_deleted: collected.map_or(0, |report| report.removed_objects),
        bytes_freed_gc: collected.map_or(0, |report| report.freed_bytes),
        bytes_freed_compact: done.compacted.map_or(0, |sizes| sizes.before.saturating_sub(sizes.after)),
    };
    context.shown.result(&shown, |out| {
        writeln!(out, "{} -> {}", human(shown.initial_size_bytes), human(shown.final_size_bytes))
    })?;
    Ok(0)
}
