//! `avfs checkpoint ls`.

use agentiso_core::Failure;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::Snapshot;
use crate::avfs::context::Context;
use crate::ui::{Table, age_since};

/// Flags of `checkpoint ls`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work checkpoint ls")]
pub struct List {}

/// The checkpoints of a vault, oldest first.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Snapshots {
    snapshots: Vec<Snapshot>,
}

/// Lists checkpoints.
pub fn list(context: &Context, _: List) -> Result<u8, Failure> {
    let found = context.vaults()?.checkpoints(&context.vault()?)?;
    let listed = Snapshots { snapshots: found.into_iter().map(Snapshot::from).collect() };
    context.shown.result(&listed, |out| {
        let mut table = Table::new(["NAME", "KIND", "FILES", "SIZE", "CREATED", "DESCRIPTION"])
            .align_right(2)
            .align_right(3);
        for one in &listed.snapshots {
            table.row([
                one.name.clone(),
                one.kind.clone(),
                one.file_count.to_string(),
                one.total_size_human.clone(),
                age_since(&one.created_at),
                one.description.clone().unwrap_or_default(),
            ]);
        }
        table.write(out)
    })?;
    Ok(0)
}
