//! `avfs fsck`.

use std::io::Write;
use std::path::PathBuf;

use agentiso_core::Failure;
use agentiso_vfs::FsckRequest;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;
use crate::avfs::shown;
use crate::ui::counted;

/// Flags of `fsck`.
#[derive(Args, Debug)]
#[command(
    after_help = "Everything is read. The exit code is 1 if something is wrong.\n\nExamples:\n  avfs fsck\n  \
                  avfs fsck --repair --source ~/project"
)]
pub struct Fsck {
    /// Repair what can be repaired
    #[arg(long)]
    pub repair: bool,
    /// A directory that may still have lost files
    #[arg(long, value_name = "DIR", requires = "repair")]
    pub source: Option<PathBuf>,
}

/// What was found and done.
#[derive(Debug, JsonSchema, Serialize)]
pub struct FsckDone {
    /// Whether nothing is wrong, or everything was repaired.
    clean: bool,
    /// Packs that were read.
    packs: u64,
    /// Objects that were read.
    objects: u64,
    /// What is damaged.
    damage: Vec<String>,
    /// What is wrong with the records.
    records: Vec<String>,
    /// States of vaults that cannot be read completely.
    lost: Vec<Lost>,
    /// What was done.
    actions: Vec<String>,
    /// Whether repairs were asked for.
    repair: bool,
}

/// A state that cannot be read completely.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Lost {
    /// Which.
    what: String,
    /// Paths that are lost; the first 100.
    paths: Vec<String>,
    /// How many there are.
    total: u64,
}

/// Looks for damage.
pub fn fsck(context: &Context, flags: Fsck) -> Result<u8, Failure> {
    let request = FsckRequest { repair: flags.repair, source: flags.source };
    let found = context.vaults()?.fsck(&request)?;
    let damage = found.store.damage.iter().map(|one| match &one.object {
        Some((kind, id)) => format!("{} {id} in {}: {}", kind.as_str(), one.pack, one.reason),
        None => format!("{}: {}", one.pack, one.reason),
    });
    let done = FsckDone {
        clean: found.is_clean(),
        packs: found.store.packs,
        objects: found.store.objects,
        damage: damage.collect(),
        lost: found
            .lost
            .iter()
            .map(|one| Lost {
                what: one.what.clone(),
                paths: one.paths.iter().map(shown::path).collect(),
                total: one.total,
            })
            .collect(),
        records: found.records,
        actions: found.actions,
        repair: flags.repair,
    };
    context.shown.result(&done, |out| {
        for line in done.damage.iter().chain(&done.records) {
            writeln!(out, "damaged  {line}")?;
        }
        for one in &done.lost {
            writeln!(out, "lost     {} of {}", counted(one.total, "path"), one.what)?;
            one.paths.iter().try_for_each(|path| writeln!(out, "         {path}"))?;
        }
        done.actions.iter().try_for_each(|action| writeln!(out, "done     {action}"))?;
        let state = if done.clean { "clean" } else { "damaged" };
        writeln!(out, "{} in {}: {state}", counted(done.objects, "object"), counted(done.packs, "pack"))
    })?;
    Ok(u8::from(!done.clean))
}
