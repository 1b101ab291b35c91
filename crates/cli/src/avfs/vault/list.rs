//! `avfs vault ls`.

use agentiso_core::Failure;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::{BACKEND, is_current};
use crate::avfs::context::Context;
use crate::avfs::shown::human;
use crate::ui::{Table, age_since};

/// Flags of `vault ls`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs vault ls")]
pub struct List {}

/// All vaults, ordered by name.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Listed(Vec<Vault>);

/// One vault.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Vault {
    name: String,
    id: String,
    /// Whether it is what commands in this directory use.
    current: bool,
    /// Size of all its files in bytes.
    size: u64,
    files: u64,
    directories: u64,
    /// What it is kept in.
    backend: String,
    /// The vault it was forked from; its id if that was removed.
    parent: Option<String>,
    created_at: String,
    modified_at: String,
    /// When it is removed by itself.
    expires_at: Option<String>,
}

/// Lists vaults.
pub fn list(context: &Context, _: List) -> Result<u8, Failure> {
    let mut listed = Vec::new();
    for vault in context.vaults()?.list()? {
        listed.push(Vault {
            current: is_current(context, &vault)?,
            id: vault.id.to_string(),
            size: vault.totals.bytes,
            files: vault.totals.files,
            directories: vault.totals.directories,
            backend: BACKEND.to_owned(),
            parent: vault.parent.map(|parent| parent.name.unwrap_or_else(|| parent.id.to_string())),
            created_at: vault.created_at.to_string(),
            modified_at: vault.modified_at.to_string(),
            expires_at: vault.expires_at.map(|end| end.to_string()),
            name: vault.name,
        });
    }
    let listed = Listed(listed);
    context.shown.result(&listed, |out| {
        let mut table = Table::new(["", "NAME", "FILES", "SIZE", "FORKED FROM", "MODIFIED"])
            .align_right(2)
            .align_right(3);
        for vault in &listed.0 {
            table.row([
                if vault.current { "*" } else { "" }.to_owned(),
                vault.name.clone(),
                vault.files.to_string(),
                human(vault.size),
                vault.parent.clone().unwrap_or_default(),
                age_since(&vault.modified_at),
            ]);
        }
        table.write(out)
    })?;
    Ok(0)
}
