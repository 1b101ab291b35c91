//! `avfs man`.

use std::io::{self, Write};
use std::path::PathBuf;

use agentiso_core::{Code, Failure};
use clap::{Args, CommandFactory};
use schemars::JsonSchema;
use serde::Serialize;

use super::cli::Cli;
use super::context::Context;

/// Flags of `man`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs man ~/.local/share/man/man1")]
pub struct Man {
    /// Directory for the pages; created if missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Where the pages are.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Pages {
    directory: PathBuf,
}

/// Writes a page for avfs and one for each of its commands.
pub fn man(context: &Context, flags: Man) -> Result<u8, Failure> {
    let directory = flags.directory;
    let trouble =
        |error: io::Error| Failure::new(Code::of_io(&error), format!("{}: {error}", directory.display()));
    std::fs::create_dir_all(&directory).map_err(trouble)?;
    clap_mangen::generate_to(Cli::command(), &directory).map_err(trouble)?;
    let pages = Pages { directory };
    context
        .shown
        .result(&pages, |out| writeln!(out, "Wrote the manual pages to {}.", pages.directory.display()))?;
    Ok(0)
}
