//! `avfs append`.

use std::ffi::OsString;

use agentiso_core::Failure;
use agentiso_vfs::FileOp;
use clap::Args;

use super::write::{content, put};
use crate::avfs::context::{Context, path};

/// Flags of `append`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work append /log.txt 'one more line'")]
pub struct Append {
    /// The file, which is made if it does not exist
    pub path: OsString,
    /// What to append [default: standard input]
    #[arg(conflicts_with = "stdin")]
    pub content: Option<OsString>,
    /// Read from standard input
    #[arg(long)]
    pub stdin: bool,
}

/// Appends to a file.
pub fn append(context: &Context, flags: Append) -> Result<u8, Failure> {
    let at = path(&flags.path)?;
    let op = FileOp::Append { path: at.clone(), content: content(context, flags.content.as_deref())? };
    put(context, &at, op, false, true)
}
