//! `avfs mv`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::FileOp;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Flags of `mv`.
#[derive(Args, Debug)]
#[command(after_help = "If the destination is a directory, the thing is moved into it.\n\nExample:\n  \
                  avfs --vault work mv /old.txt /new.txt")]
pub struct Mv {
    /// What to move
    pub source: OsString,
    /// Where to
    pub destination: OsString,
    /// Replace a file at the destination
    #[arg(short, long, conflicts_with = "no_clobber")]
    pub force: bool,
    /// Refuse to replace a file; this is so anyway
    #[arg(short, long, hide = true)]
    pub no_clobber: bool,
    /// Say what is moved; this is so anyway
    #[arg(short, long, hide = true)]
    pub verbose: bool,
}

/// A move.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Moved {
    source: String,
    destination: String,
    /// Whether anything changed.
    moved: bool,
}

/// Moves a file or directory.
pub fn mv(context: &Context, flags: Mv) -> Result<u8, Failure> {
    let (from, to) = (path(&flags.source)?, path(&flags.destination)?);
    let op = FileOp::Move { from: from.clone(), to: to.clone(), replace: flags.force };
    let changed = context.vaults()?.change(&context.vault()?, &[op])?;
    let moved =
        Moved { source: shown::path(&from), destination: shown::path(&to), moved: changed.is_changed };
    context.shown.result(&moved, |out| writeln!(out, "Moved {} to {}", moved.source, moved.destination))?;
    Ok(0)
}
