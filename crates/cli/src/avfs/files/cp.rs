//! `avfs cp`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::FileOp;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Flags of `cp`.
#[derive(Args, Debug)]
#[command(
    after_help = "If the destination is a directory, the copy is put into it. A copy takes no space.\n\nExample:\n  \
                  avfs --vault work cp -r /src /src-before"
)]
pub struct Cp {
    /// What to copy
    pub source: OsString,
    /// Where to
    pub destination: OsString,
    /// Directories too, with everything in them
    #[arg(short, long)]
    pub recursive: bool,
    /// Replace a file at the destination
    #[arg(short, long, conflicts_with = "no_clobber")]
    pub force: bool,
    /// Refuse to replace a file; this is so anyway
    #[arg(short, long, hide = true)]
    pub no_clobber: bool,
    /// Say what is copied; this is so anyway
    #[arg(short, long, hide = true)]
    pub verbose: bool,
}

/// A copy.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Copied {
    source: String,
    destination: String,
    /// Whether anything changed.
    copied: bool,
}

/// Copies a file or directory.
pub fn cp(context: &Context, flags: Cp) -> Result<u8, Failure> {
    let (from, to) = (path(&flags.source)?, path(&flags.destination)?);
    let op =
        FileOp::Copy { from: from.clone(), to: to.clone(), recursive: flags.recursive, replace: flags.force };
    let changed = context.vaults()?.change(&context.vault()?, &[op])?;
    let copied =
        Copied { source: shown::path(&from), destination: shown::path(&to), copied: changed.is_changed };
    context
        .shown
        .result(&copied, |out| writeln!(out, "Copied {} to {}", copied.source, copied.destination))?;
    Ok(0)
}
