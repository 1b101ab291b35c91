//! `avfs merge`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_proxy::envelope::FileConflict;
use agentiso_proxy::{conflict_reason, shown_path};
use agentiso_vfs::{MergeVaults, OnConflict, RemoveOptions};
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;

use super::changes::{ChangeList, show_changes};
use super::endpoint::endpoint;
use crate::avfs::context::{Context, path};

/// Flags of `merge`.
#[derive(Args, Debug)]
#[command(
    after_help = "The vault that takes the changes is named by --vault. The common base is found in the lineage of \
                  forks. The exit code is 1 if conflicts stopped the merge.\n\nExamples:\n  \
                  avfs --vault work merge task-1 --dry-run\n  avfs --vault work merge task-1 --remove\n  \
                  avfs --vault work merge task-1 --on-conflict markers"
)]
pub struct Merge {
    /// Whose changes are taken: a vault, VAULT@STATE, or host:DIR
    pub source: String,
    /// What both began with, if it is not in the lineage
    #[arg(long, value_name = "STATE")]
    pub base: Option<String>,
    /// Only changes at and below this path
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub path: OsString,
    /// What happens where both sides changed the same
    #[arg(long, value_enum, default_value_t = Conflicts::Stop)]
    pub on_conflict: Conflicts,
    /// Only show what would happen
    #[arg(long)]
    pub dry_run: bool,
    /// Remove the source afterwards
    #[arg(long, conflicts_with = "dry_run")]
    pub remove: bool,
}

/// What happens to conflicts.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Conflicts {
    /// Nothing is changed
    Stop,
    /// The vault keeps what it has
    Ours,
    /// The source wins
    Theirs,
    /// Texts get both sides between markers
    Markers,
}

/// What a merge did.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Merged {
    source: String,
    target: String,
    /// Whether the vault was changed.
    applied: bool,
    /// Whether it was only tried.
    dry_run: bool,
    /// The number of the change.
    revision: Option<u64>,
    /// Paths that both sides changed.
    conflicts: Vec<FileConflict>,
    /// What the merge changes in the vault.
    #[serde(flatten)]
    changes: ChangeList,
}

/// Merges.
pub fn merge(context: &Context, flags: Merge) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let target = context.vault()?;
    let source = match flags.source.contains([':', '@']) {
        true => endpoint(context, &flags.source)?,
        false => agentiso_vfs::Endpoint::now(&vaults.info(&flags.source)?.name),
    };
    let request = MergeVaults {
        source,
        base: flags.base.as_deref().map(|base| endpoint(context, base)).transpose()?,
        scope: path(&flags.path)?,
        on_conflict: match flags.on_conflict {
            Conflicts::Stop => OnConflict::Stop,
            Conflicts::Ours => OnConflict::Ours,
            Conflicts::Theirs => OnConflict::Theirs,
            Conflicts::Markers => OnConflict::Markers,
        },
        dry_run: flags.dry_run,
        ..MergeVaults::new(&flags.source, &target)
    };
    let report = vaults.merge(&request)?;
    let is_stopped = !report.conflicts.is_empty() && matches!(flags.on_conflict, Conflicts::Stop);
    let merged = Merged {
        source: flags.source.clone(),
        target,
        applied: report.applied.is_some(),
        dry_run: flags.dry_run,
        revision: report.applied.as_ref().map(|changed| changed.revision),
        conflicts: report
            .conflicts
            .iter()
            .map(|one| FileConflict { path: shown_path(&one.path), reason: conflict_reason(one.kind) })
            .collect(),
        changes: ChangeList::from(&report.changes),
    };
    if flags.remove && !is_stopped {
        vaults.remove(&flags.source, RemoveOptions::default())?;
    }
    context.shown.result(&merged, |out| {
        show_changes(out, &merged.changes)?;
        for one in &merged.conflicts {
            writeln!(out, "conflict {}: {}", one.path, one.reason)?;
        }
        match (merged.applied, merged.dry_run, is_stopped) {
            (true, ..) => writeln!(out, "Merged {} into {}", merged.source, merged.target),
            (_, _, true) => {
                writeln!(out, "Nothing was changed: choose with --on-conflict ours, theirs or markers")
            }
            (_, true, _) => writeln!(out, "Nothing was changed: this was a dry run"),
            _ => writeln!(out, "There was nothing to merge"),
        }
    })?;
    Ok(u8::from(is_stopped))
}
