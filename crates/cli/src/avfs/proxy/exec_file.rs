//! `avfs exec`: a command on one file.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_proxy::envelope::Envelope;
use agentiso_proxy::{Invocation, Run};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::report::{Shower, show};
use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Where commands see their vault.
const WORKSPACE: &str = "/workspace";

/// Flags of `exec`.
#[derive(Args, Debug)]
#[command(
    after_help = "{} stands for the file; without it the file is the last argument. The command passes policy and \
                  sandbox as with proxy exec. It cannot change the vault unless --reimport is given.\n\nExamples:\n  \
                  avfs --vault work exec /data.csv -- wc -l\n  \
                  avfs --vault work exec /data.csv --reimport -- sort -o {} {}"
)]
pub struct ExecFile {
    /// The file
    pub path: OsString,
    /// Keep what the command changes
    #[arg(long)]
    pub reimport: bool,
    /// Let the command read standard input
    #[arg(long)]
    pub stdin: bool,
    /// A program and its arguments
    #[arg(last = true, required = true, value_name = "ARGV")]
    pub argv: Vec<String>,
}

/// A command that ran on a file.
#[derive(Debug, JsonSchema, Serialize)]
pub struct FileRan {
    vfs_path: String,
    command: String,
    exit_code: i32,
    stdout: String,
    stderr: String,
    /// Whether the file was changed.
    reimported: bool,
    /// Its size in bytes, if it was.
    reimport_bytes: u64,
    /// Everything else about the run.
    envelope: Envelope,
}

/// Runs a command on a file.
pub fn exec_file(context: &Context, flags: ExecFile) -> Result<u8, Failure> {
    let at = path(&flags.path)?;
    context.view()?.stat(&at, true)?;
    let file = format!("{WORKSPACE}{}", shown::path(&at));
    let mut argv: Vec<String> = flags.argv.iter().map(|word| word.replace("{}", &file)).collect();
    if argv == flags.argv {
        argv.push(file);
    }
    let run = Run {
        vault: Some(context.vault()?),
        readonly: !flags.reimport,
        stdin: flags.stdin,
        ..Run::new(Invocation::Argv(argv))
    };
    let shower = Shower::new(context.shown, false);
    let envelope = context.boundary()?.run(&run, &shower);
    if !context.shown.json {
        return show(context.shown, &envelope);
    }
    let vfs_path = shown::path(&at);
    let changed = envelope.result.changes.iter().find(|change| change.path == vfs_path);
    let ran = FileRan {
        command: envelope.result.command.clone(),
        exit_code: envelope.result.exit_code,
        stdout: envelope.result.stdout.clone(),
        stderr: envelope.result.stderr.clone(),
        reimported: changed.is_some(),
        reimport_bytes: changed.and_then(|change| change.size_after).unwrap_or_default(),
        vfs_path,
        envelope,
    };
    context.shown.result(&ran, |out| writeln!(out, "{}", ran.command))?;
    Ok(ran.envelope.result.exit_status)
}
