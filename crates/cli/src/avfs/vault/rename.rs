//! `avfs vault rename`.

use std::io::Write;

use agentiso_core::Failure;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;

/// Flags of `vault rename`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs vault rename task-1 done-1")]
pub struct Rename {
    /// The vault
    pub vault_name: String,
    /// Its new name
    pub new_name: String,
}

/// A vault with a new name.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Renamed {
    /// Its former name.
    pub old_name: String,
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
}

/// Renames a vault.
pub fn rename(context: &Context, flags: Rename) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let before = vaults.info(&flags.vault_name)?;
    let after = vaults.rename(&before.id.to_string(), &flags.new_name.parse()?)?;
    let renamed = Renamed { old_name: before.name, name: after.name, id: after.id.to_string() };
    context
        .shown
        .result(&renamed, |out| writeln!(out, "Renamed {} to {}", renamed.old_name, renamed.name))?;
    Ok(0)
}
