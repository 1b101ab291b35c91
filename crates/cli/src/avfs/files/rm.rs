//! `avfs rm`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::{FileOp, TreePath};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Flags of `rm`.
#[derive(Args, Debug)]
#[command(after_help = "The history keeps what was removed: avfs revert brings a file back.\n\nExample:\n  \
                  avfs --vault work rm -r /target")]
pub struct Rm {
    /// What to remove; all or nothing
    #[arg(required = true)]
    pub paths: Vec<OsString>,
    /// Directories too, with everything in them
    #[arg(short, long)]
    pub recursive: bool,
    /// A path that does not exist is no error
    #[arg(short, long)]
    pub force: bool,
}

/// What was removed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct RemovedPath {
    /// The first path.
    path: String,
    /// Whether anything was removed.
    removed: bool,
    /// All paths.
    paths: Vec<String>,
}

/// Removes files and directories.
pub fn rm(context: &Context, flags: Rm) -> Result<u8, Failure> {
    let paths: Vec<TreePath> = flags.paths.iter().map(|given| path(given)).collect::<Result<_, _>>()?;
    let (recursive, force) = (flags.recursive, flags.force);
    let ops: Vec<FileOp> =
        paths.iter().map(|path| FileOp::Remove { path: path.clone(), recursive, force }).collect();
    let changed = context.vaults()?.change(&context.vault()?, &ops)?;
    let paths: Vec<String> = paths.iter().map(shown::path).collect();
    let removed =
        RemovedPath { path: paths.first().cloned().unwrap_or_default(), removed: changed.is_changed, paths };
    context.shown.result(&removed, |out| match removed.removed {
        true => removed.paths.iter().try_for_each(|path| writeln!(out, "Removed {path}")),
        false => writeln!(out, "Nothing was removed"),
    })?;
    Ok(0)
}
