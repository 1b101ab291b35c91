//! `avfs vault use`.

use std::io::Write;

use agentiso_core::{Code, Failure};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;
use crate::avfs::directory;

/// Flags of `vault use`.
#[derive(Args, Debug)]
#[command(
    after_help = "The default is that of the present directory alone, so that agents in different directories do not \
                  meet. --vault and AVFS_VAULT come first.\n\nExamples:\n  avfs vault use work\n  avfs vault use --clear"
)]
pub struct UseVault {
    /// The vault
    #[arg(required_unless_present = "clear")]
    pub name: Option<String>,
    /// Remove the default of the present directory
    #[arg(long, conflicts_with = "name")]
    pub clear: bool,
}

/// The default of a directory.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Used {
    /// The vault; null if there is no default any more.
    pub current: Option<String>,
    /// The directory.
    pub directory: Option<String>,
}

/// Sets or removes the default of the present directory.
pub fn use_vault(context: &Context, flags: UseVault) -> Result<u8, Failure> {
    let used = match (flags.name, flags.clear) {
        (Some(name), false) => {
            let vault = context.vaults()?.info(&name)?;
            let directory = directory::set_default(&context.places, &vault)?;
            Used { current: Some(vault.name), directory: Some(directory.display().to_string()) }
        }
        (None, true) => {
            directory::clear_default(&context.places)?;
            Used { current: None, directory: None }
        }
        _ => return Err(Failure::new(Code::InvalidArgument, "give the name of a vault, or --clear")),
    };
    context.shown.result(&used, |out| match (&used.current, &used.directory) {
        (Some(vault), Some(directory)) => writeln!(out, "{directory} uses vault {vault}"),
        _ => writeln!(out, "This directory has no default vault"),
    })?;
    Ok(0)
}
