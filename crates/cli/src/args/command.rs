//! Flags of `run`, `exec` and `shell`.

use std::ffi::OsString;

use clap::Args;

use super::quantity::seconds;
use super::values::workspaces;
use super::{NetworkFlags, Size};

/// The meaning of their exit codes.
macro_rules! exit_codes {
    () => {
        "The exit code is the command's own, or 128 plus the signal that ended it.\n\
         125: agentiso failed   126: the command cannot be executed\n\
         127: the command was not found   124: the time limit expired"
    };
}

/// Flags of `run`.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    exit_codes!(),
    "\n\nPut agentiso's flags before the command. Everything after the command's name is passed to the command.\n\n\
     Examples:\n  \
     agentiso run uname -a\n  \
     agentiso run --tty bash\n  \
     agentiso run --image debian --memory 1G sh -c 'free -m'"
))]
pub struct Run {
    /// The machine.
    #[command(flatten)]
    pub size: Size,
    /// What it may reach.
    #[command(flatten)]
    pub network: Box<NetworkFlags>,
    /// The command and how it runs.
    #[command(flatten)]
    pub command: Command,
}

/// Flags of `exec`.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    exit_codes!(),
    "\n\nPut agentiso's flags before the command. Everything after the command's name is passed to the command.\n\
     Processes the command leaves in the background keep running. An interrupt ends the command, not the workspace.\n\
     exec takes only as much standard input as the command reads; the rest is left for the next command.\n\
     With --json, output that is not UTF-8 is encoded as base64, which stdout_encoding or stderr_encoding states.\n\n\
     Examples:\n  \
     agentiso exec web ls -la /srv\n  \
     agentiso exec web --workdir /srv --env DEBUG=1 ./server\n  \
     agentiso exec web tee /etc/motd < motd\n  \
     while read -r name; do agentiso exec web id \"$name\"; done < names"
))]
pub struct Exec {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// The command and how it runs.
    #[command(flatten)]
    pub command: Command,
}

/// Flags of `shell`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is the shell's own.\n\n\
                        Examples:\n  agentiso shell web\n  agentiso shell web --user nobody --workdir /tmp")]
pub struct Shell {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Directory in the machine to start in
    #[arg(long, short, value_name = "DIR")]
    pub workdir: Option<String>,
    /// User to run the shell as: a name in the machine, UID, or UID:GID
    #[arg(long, short, value_name = "USER")]
    pub user: Option<String>,
}

/// A command, and how it runs.
#[derive(Args, Debug)]
pub struct Command {
    /// How it runs.
    #[command(flatten)]
    pub conditions: Conditions,
    /// Allocate a terminal for the command
    #[arg(long, short)]
    pub tty: bool,
    /// Do not read standard input; the command's input is empty
    #[arg(long, short = 'n', conflicts_with = "tty")]
    pub no_stdin: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub words: Vec<OsString>,
}

/// How a command runs, in the foreground or as a job.
#[derive(Args, Debug)]
pub struct Conditions {
    /// Set an environment variable; NAME alone takes its value from this environment
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Directory in the machine to run the command in
    #[arg(long, short, value_name = "DIR")]
    pub workdir: Option<String>,
    /// User to run the command as: a name in the machine, UID, or UID:GID
    #[arg(long, short, value_name = "USER")]
    pub user: Option<String>,
    /// Kill the command after this time: 90s, 10m, 1h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub timeout: Option<u64>,
}
