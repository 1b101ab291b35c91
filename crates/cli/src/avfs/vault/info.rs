//! `avfs vault info`.

use std::io::Write;

use agentiso_core::Failure;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::{BACKEND, is_current};
use crate::avfs::context::Context;
use crate::avfs::shown::human;
use crate::ui::counted;

/// Flags of `vault info`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs vault info work")]
pub struct InfoFlags {
    /// The vault [default: the vault in use]
    pub name: Option<String>,
}

/// A vault.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Info {
    name: String,
    id: String,
    /// Whether it is what commands in this directory use.
    current: bool,
    description: Option<String>,
    /// Size of all its files in bytes.
    size: u64,
    files: u64,
    directories: u64,
    created_at: String,
    modified_at: String,
    /// When it is removed by itself.
    expires_at: Option<String>,
    /// The directory of all vaults.
    path: String,
    /// What it is kept in.
    backend: String,
    /// Identifies its content.
    tree: String,
    /// The number of its last change.
    revision: u64,
    /// Number of its checkpoints.
    checkpoints: u64,
    /// Commands that run in it.
    uses: u64,
    /// What it was forked from, the nearest first.
    ancestors: Vec<Relative>,
    /// Its forks.
    forks: Vec<Relative>,
    /// The file with its policy, if it has one.
    policy: Option<String>,
}

/// A vault that another one was forked from, or a fork.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Relative {
    id: String,
    /// Its name; null if it was removed.
    name: Option<String>,
    /// The last change that both have.
    revision: u64,
}

/// Shows a vault.
pub fn info(context: &Context, flags: InfoFlags) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let vault = vaults.info(&context.vault_or(flags.name)?)?;
    let lineage = vaults.lineage(&vault.id.to_string())?;
    let policy = context.places.policy(vault.id);
    let info = Info {
        current: is_current(context, &vault)?,
        id: vault.id.to_string(),
        description: vault.description,
        size: vault.totals.bytes,
        files: vault.totals.files,
        directories: vault.totals.directories,
        created_at: vault.created_at.to_string(),
        modified_at: vault.modified_at.to_string(),
        expires_at: vault.expires_at.map(|end| end.to_string()),
        path: vaults.directory().display().to_string(),
        backend: BACKEND.to_owned(),
        tree: vault.tree.to_string(),
        revision: vault.revision,
        checkpoints: vault.checkpoints,
        uses: vault.uses,
        ancestors: lineage
            .ancestors
            .into_iter()
            .map(|one| Relative { id: one.id.to_string(), name: one.name, revision: one.revision })
            .collect(),
        forks: lineage
            .forks
            .into_iter()
            .map(|one| Relative { id: one.id.to_string(), name: one.name, revision: one.revision })
            .collect(),
        policy: policy.exists().then(|| policy.display().to_string()),
        name: vault.name,
    };
    context.shown.result(&info, |out| {
        let names = |relatives: &[Relative]| {
            let names = relatives.iter().map(|one| one.name.clone().unwrap_or_else(|| one.id.clone()));
            names.collect::<Vec<_>>().join(", ")
        };
        writeln!(out, "name         {}", info.name)?;
        writeln!(out, "id           {}", info.id)?;
        if let Some(description) = &info.description {
            writeln!(out, "description  {description}")?;
        }
        writeln!(
            out,
            "content      {}, {}, {}",
            counted(info.files, "file"),
            counted(info.directories, "directory"),
            human(info.size)
        )?;
        writeln!(out, "revision     {}", info.revision)?;
        writeln!(out, "checkpoints  {}", info.checkpoints)?;
        writeln!(out, "created      {}", info.created_at)?;
        writeln!(out, "modified     {}", info.modified_at)?;
        if let Some(end) = &info.expires_at {
            writeln!(out, "expires      {end}")?;
        }
        if !info.ancestors.is_empty() {
            writeln!(out, "forked from  {}", names(&info.ancestors))?;
        }
        if !info.forks.is_empty() {
            writeln!(out, "forks        {}", names(&info.forks))?;
        }
        Ok(())
    })?;
    Ok(0)
}
