//! `avfs checkout` and `avfs revert`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::VersionRef;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Flags of `checkout`.
#[derive(Args, Debug)]
#[command(
    after_help = "The old content becomes a new version.\n\nExample:\n  avfs --vault work checkout /README.md -v 2"
)]
pub struct Checkout {
    /// The file
    pub path: OsString,
    /// The version, as log shows it
    #[arg(short, long, value_name = "N")]
    pub version: VersionRef,
}

/// Flags of `revert`.
#[derive(Args, Debug)]
#[command(
    after_help = "It also brings back a file that was removed.\n\nExample:\n  avfs --vault work revert /README.md"
)]
pub struct Revert {
    /// The file
    pub path: OsString,
}

/// A file with the content of an older version.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CheckedOutFile {
    path: String,
    /// The version whose content it has.
    restored_version: u64,
    /// The version that it is now.
    new_version: u64,
}

/// A file with the content it had before its last change.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Reverted {
    path: String,
    /// The version that it was; null if it was removed.
    reverted_from: Option<u64>,
    /// The version whose content it has.
    reverted_to: u64,
    /// The version that it is now.
    new_version: u64,
}

/// Gives a file the content of a version.
pub fn checkout(context: &Context, flags: Checkout) -> Result<u8, Failure> {
    let done = context.vaults()?.checkout(&context.vault()?, &path(&flags.path)?, flags.version)?;
    let done = CheckedOutFile {
        path: shown::path(&done.path),
        restored_version: done.to_version,
        new_version: done.new_version,
    };
    context.shown.result(&done, |out| {
        writeln!(out, "{} has the content of version {}", done.path, done.restored_version)
    })?;
    Ok(0)
}

/// Gives a file the content it had before its last change.
pub fn revert(context: &Context, flags: Revert) -> Result<u8, Failure> {
    let done = context.vaults()?.revert(&context.vault()?, &path(&flags.path)?)?;
    let done = Reverted {
        path: shown::path(&done.path),
        reverted_from: done.from_version,
        reverted_to: done.to_version,
        new_version: done.new_version,
    };
    context.shown.result(&done, |out| {
        writeln!(out, "{} has the content of version {}", done.path, done.reverted_to)
    })?;
    Ok(0)
}
