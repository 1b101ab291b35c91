//! `avfs pwd`.

use std::io::Write;

use agentiso_core::Failure;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;

/// Flags of `pwd`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs pwd")]
pub struct Pwd {}

/// The working directory.
#[derive(Debug, JsonSchema, Serialize)]
pub struct WorkingDirectory {
    /// Always `/`.
    path: String,
}

/// Prints the working directory.
pub fn pwd(context: &Context, _: Pwd) -> Result<u8, Failure> {
    let here = WorkingDirectory { path: "/".to_owned() };
    context.shown.result(&here, |out| writeln!(out, "{}", here.path))?;
    Ok(0)
}
