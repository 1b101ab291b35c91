//! `avfs mkdir`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::FileOp;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Flags of `mkdir`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work mkdir -p /src/lib")]
pub struct Mkdir {
    /// The directory
    pub path: OsString,
    /// Make missing directories above it; one that exists is no error
    #[arg(short, long)]
    pub parents: bool,
}

/// A directory that was made.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Made {
    path: String,
    /// False if it existed.
    created: bool,
}

/// Makes a directory.
pub fn mkdir(context: &Context, flags: Mkdir) -> Result<u8, Failure> {
    let at = path(&flags.path)?;
    let op = FileOp::MakeDirectory { path: at.clone(), parents: flags.parents, mode: None };
    let changed = context.vaults()?.change(&context.vault()?, &[op])?;
    let made = Made { path: shown::path(&at), created: changed.is_changed };
    context.shown.result(&made, |out| match made.created {
        true => writeln!(out, "Made {}", made.path),
        false => writeln!(out, "{} exists", made.path),
    })?;
    Ok(0)
}
