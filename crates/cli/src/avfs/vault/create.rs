//! `avfs vault create`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::CreateVault;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::{BACKEND, end_of, is_current};
use crate::avfs::context::Context;
use crate::avfs::directory;

/// Flags of `vault create`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  avfs vault create work\n  avfs vault create scratch --ttl 2h --use")]
pub struct Create {
    /// The name: 1 to 64 letters, digits, hyphens and underscores
    pub name: String,
    /// What the vault is for
    #[arg(long, short)]
    pub description: Option<String>,
    /// Remove the vault by itself after this time, for example 2h
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<String>,
    /// Make it the default of the present directory
    #[arg(long, overrides_with = "no_switch")]
    pub r#use: bool,
    /// Do not make it the default of the present directory; this is so anyway
    #[arg(long, hide = true)]
    pub no_switch: bool,
    /// Where older versions kept vaults; without effect
    #[arg(long, short, hide = true)]
    pub backend: Option<String>,
    /// How older versions kept contents; without effect
    #[arg(long, hide = true)]
    pub shared_blob: bool,
}

/// A new vault.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Created {
    /// Its name.
    pub created: String,
    /// Its permanent id.
    pub id: String,
    /// Whether it is what commands in this directory use.
    pub current: bool,
    /// What it is kept in.
    pub backend: String,
    /// When it is removed by itself.
    pub expires_at: Option<String>,
}

/// Creates a vault.
pub fn create(context: &Context, flags: Create) -> Result<u8, Failure> {
    let request = CreateVault {
        description: flags.description,
        expires_at: end_of(flags.ttl.as_deref())?,
        ..CreateVault::new(flags.name.parse()?)
    };
    let vault = context.vaults()?.create(&request)?;
    if flags.r#use {
        directory::set_default(&context.places, &vault)?;
    }
    let created = Created {
        current: is_current(context, &vault)?,
        created: vault.name,
        id: vault.id.to_string(),
        backend: BACKEND.to_owned(),
        expires_at: vault.expires_at.map(|end| end.to_string()),
    };
    context.shown.result(&created, |out| writeln!(out, "Created vault {}", created.created))?;
    Ok(0)
}
