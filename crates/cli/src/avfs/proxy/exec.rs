//! `avfs proxy exec`.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use agentiso_core::Failure;
use agentiso_proxy::envelope::CheckpointMode;
use agentiso_proxy::{Fork, Invocation, RequestError, Run, parse_timeout, parse_variable, refused};
use clap::{Args, ValueEnum};

use super::report::{Shower, show};
use crate::avfs::context::Context;

/// Flags of `proxy exec`.
#[derive(Args, Debug)]
#[command(
    after_help = "The command sees the vault at /workspace, in a sandbox without network. The policy decides whether \
                  it runs, and whether a checkpoint is taken first; avfs policy explain shows why. What it changed is \
                  in the vault when it ends.\n\nExit codes: that of the command, 128 + N for a signal, 3 if it needs \
                  approval, 124 for the time limit, 125 for a failure of avfs, 126 if it is denied, 127 if there is \
                  no such program.\n\nExamples:\n  avfs --json --vault task-1 proxy exec -- cargo test\n  \
                  avfs --vault work proxy exec --fork auto --timeout 2m -- make\n  \
                  avfs --vault work proxy exec --shell 'grep -r TODO . | wc -l'\n  \
                  agentiso proxy exec --vault work -- make    # the same in the first program"
)]
pub struct Exec {
    /// What most runs have.
    #[command(flatten)]
    pub flags: ExecFlags,
    /// The fork to run in, which is made if it does not exist; auto for a new one
    #[arg(long, value_name = "NAME")]
    pub fork: Option<String>,
    /// The command cannot change the vault
    #[arg(long)]
    pub readonly: bool,
    /// The directory at which the command sees the vault [default: /workspace]
    #[arg(long, value_name = "DIR")]
    pub mountpoint: Option<PathBuf>,
    /// Mount the vault at this directory afterwards
    #[arg(long, requires = "mountpoint")]
    pub keep_mount: bool,
}

/// What runs have, in a sandbox of their own or in a session.
#[derive(Args, Debug)]
pub struct ExecFlags {
    /// The directory in the vault in which the command starts
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub cwd: String,
    /// The time limit: milliseconds, or a number with s, m or h; 0 for none [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    pub timeout: Option<TimeLimit>,
    /// When a checkpoint is taken first
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Checkpoint::Auto)]
    pub checkpoint: Checkpoint,
    /// Let the command read standard input
    #[arg(long)]
    pub stdin: bool,
    /// A variable for the command; NAME alone passes on its present value. Can be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// The token of an approval, from the envelope of the same command
    #[arg(long, value_name = "TOKEN")]
    pub approve: Option<String>,
    /// Only judge the command
    #[arg(long)]
    pub dry_run: bool,
    /// With --json, print output as it arrives, one JSON value per line, before the envelope
    #[arg(long)]
    pub stream: bool,
    /// A line for a shell, instead of a program with its arguments
    #[arg(long, value_name = "LINE", conflicts_with = "argv")]
    pub shell: Option<String>,
    /// A program and its arguments
    #[arg(last = true, value_name = "ARGV")]
    pub argv: Vec<String>,
}

/// When a checkpoint is taken.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Checkpoint {
    /// If the policy says so
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// A time limit; nothing for none.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit(Option<Duration>);

fn timeout(given: &str) -> Result<TimeLimit, RequestError> {
    parse_timeout(given).map(TimeLimit)
}

impl ExecFlags {
    /// The request.
    pub fn request(self, vault: Option<String>) -> (Run, Result<(), RequestError>) {
        let command = match self.shell {
            Some(line) => Invocation::Shell(line),
            None => Invocation::Argv(self.argv),
        };
        let mut run = Run {
            vault,
            cwd: self.cwd,
            timeout: self.timeout.map_or(Some(Run::TIMEOUT), |limit| limit.0),
            checkpoint: match self.checkpoint {
                Checkpoint::Auto => CheckpointMode::Auto,
                Checkpoint::Always => CheckpointMode::Always,
                Checkpoint::Never => CheckpointMode::Never,
            },
            stdin: self.stdin,
            approve: self.approve,
            dry_run: self.dry_run,
            stream: self.stream,
            ..Run::new(command)
        };
        let present = |name: &str| env::var(name).ok();
        for given in &self.env {
            match parse_variable(given, present) {
                Ok(variable) => run.env.push(variable),
                Err(error) => return (run, Err(error)),
            }
        }
        (run, Ok(()))
    }
}

/// Runs one command.
pub fn exec(context: &Context, flags: Exec) -> Result<u8, Failure> {
    // Whatever is wrong from here on is in the envelope.
    let (vault, named) = match context.named() {
        Ok(vault) => (vault, Ok(())),
        Err(failure) => (None, Err(failure)),
    };
    let (mut run, checked) = flags.flags.request(vault);
    run.fork = flags.fork.map(|name| if name == "auto" { Fork::Auto } else { Fork::Named(name) });
    run.readonly = flags.readonly;
    run.mountpoint = flags.mountpoint;
    run.keep_mount = flags.keep_mount;
    let ready = named.and(checked.map_err(Failure::from));
    let shower = Shower::new(context.shown, run.stream);
    let envelope = match ready.and_then(|()| context.boundary()) {
        Ok(boundary) => boundary.run(&run, &shower),
        Err(failure) => refused(&run, &failure),
    };
    show(context.shown, &envelope)
}
