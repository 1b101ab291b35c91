//! `agentiso man`.

use std::io::{self, Write};

use agentiso_core::{Code, Failure};
use clap::CommandFactory;
use serde_json::json;

use crate::args::{self, Cli};
use crate::avfs;
use crate::output::Output;

/// Writes a page for agentiso and avfs and one for each of their verbs.
pub async fn man((): &(), flags: args::Man, output: Output) -> Result<u8, Failure> {
    let directory = &flags.directory;
    let trouble =
        |error: io::Error| Failure::new(Code::of_io(&error), format!("{}: {error}", directory.display()));
    std::fs::create_dir_all(directory).map_err(trouble)?;
    clap_mangen::generate_to(Cli::command(), directory).map_err(trouble)?;
    clap_mangen::generate_to(avfs::Cli::command(), directory).map_err(trouble)?;
    output.result(&json!({ "directory": directory }), |out| {
        writeln!(out, "Wrote the manual pages to {}.", directory.display())
    })?;
    Ok(0)
}
