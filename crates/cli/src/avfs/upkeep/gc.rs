//! `avfs gc`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::{GcDone, GcRequest};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;
use crate::avfs::shown::human;
use crate::ui::counted;

/// Flags of `gc`.
#[derive(Args, Debug)]
#[command(
    after_help = "Other commands may run meanwhile: nothing they are about to use is removed.\n\nExample:\n  avfs gc"
)]
pub struct Gc {
    /// Only count
    #[arg(long)]
    pub dry_run: bool,
    /// Free every byte, however long it takes
    #[arg(long)]
    pub thorough: bool,
    /// How older versions protected what was being written; without effect
    #[arg(long, hide = true, value_name = "N")]
    pub grace_secs: Option<u64>,
}

/// What was removed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Collected {
    /// Objects that nothing needs.
    orphans_found: u64,
    /// Objects that were removed.
    orphans_deleted: u64,
    /// What that freed on disk.
    bytes_freed: u64,
    bytes_freed_human: String,
    dry_run: bool,
}

impl Collected {
    /// What a collection found and did.
    pub fn new(done: &GcDone, dry_run: bool) -> Self {
        let freed = done.collected.as_ref().map_or(0, |report| report.freed_bytes);
        Self {
            orphans_found: done.garbage_objects,
            orphans_deleted: done.collected.as_ref().map_or(0, |report| report.removed_objects),
            bytes_freed: freed,
            bytes_freed_human: human(freed),
            dry_run,
        }
    }
}

/// Collects garbage.
pub fn gc(context: &Context, flags: Gc) -> Result<u8, Failure> {
    let request = GcRequest { dry_run: flags.dry_run, thorough: flags.thorough };
    let done = context.vaults()?.gc(&request, || context.roots())?;
    let collected = Collected::new(&done, flags.dry_run);
    context.shown.result(&collected, |out| match collected.dry_run {
        true => writeln!(out, "Not needed: {}", counted(collected.orphans_found, "object")),
        false => {
            writeln!(
                out,
                "Freed {} ({})",
                collected.bytes_freed_human,
                counted(collected.orphans_deleted, "object")
            )
        }
    })?;
    Ok(0)
}
