//! `avfs compact`.

use std::io::Write;

use agentiso_core::Failure;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;
use crate::avfs::shown::human;

/// Flags of `compact`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs compact")]
pub struct Compact {}

/// Sizes of the records.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CompactDone {
    size_before: u64,
    size_before_human: String,
    size_after: u64,
    size_after_human: String,
    bytes_freed: u64,
    bytes_freed_human: String,
}

/// Makes the records smaller.
pub fn compact(context: &Context, _: Compact) -> Result<u8, Failure> {
    let done = context.vaults()?.compact()?;
    let freed = done.before.saturating_sub(done.after);
    let shown = CompactDone {
        size_before: done.before,
        size_before_human: human(done.before),
        size_after: done.after,
        size_after_human: human(done.after),
        bytes_freed: freed,
        bytes_freed_human: human(freed),
    };
    context.shown.result(&shown, |out| writeln!(out, "Freed {}", shown.bytes_freed_human))?;
    Ok(0)
}
