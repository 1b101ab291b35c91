//! Flags of verbs that run a command.

use std::ffi::OsString;

use clap::Args;

use super::Size;
use super::values::workspaces;

/// What the exit code of such a verb means.
macro_rules! exit_codes {
    () => {
        "The exit code is the command's own, or 128 plus the signal that ended it.\n\
         125: agentiso failed   126: the command cannot be executed\n\
         127: the command was not found   124: its time was up"
    };
}

/// Flags of `run`.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    exit_codes!(),
    "\n\nExamples:\n  \
     agentiso run -- uname -a\n  \
     agentiso run --tty -- bash\n  \
     agentiso run --image debian --memory 1024 -- sh -c 'free -m'"
))]
pub struct Run {
    /// The machine.
    #[command(flatten)]
    pub size: Size,
    /// The command.
    #[command(flatten)]
    pub command: Command,
}

/// Flags of `exec`.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    exit_codes!(),
    "\n\nWhat the command leaves in the background goes on. An interrupt ends the command, not the workspace.\n\n\
     Examples:\n  \
     agentiso exec web -- make test\n  \
     agentiso exec web --workdir /srv --env DEBUG=1 -- ./server\n  \
     agentiso exec web -- tee /etc/motd < motd"
))]
pub struct Exec {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// The command.
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
    /// Directory in the machine to begin in
    #[arg(long, short, value_name = "DIR")]
    pub workdir: Option<String>,
    /// User to be: a name in the machine, UID, or UID:GID
    #[arg(long, short, value_name = "USER")]
    pub user: Option<String>,
}

/// A command and how it runs.
#[derive(Args, Debug)]
pub struct Command {
    /// How it runs.
    #[command(flatten)]
    pub conditions: Conditions,
    /// Gives the command a terminal
    #[arg(long, short)]
    pub tty: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub words: Vec<OsString>,
}

/// How a command runs, whoever waits for it.
#[derive(Args, Debug)]
pub struct Conditions {
    /// Sets an environment variable; NAME alone passes on the value it has here
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Directory in the machine to run the command in
    #[arg(long, short, value_name = "DIR")]
    pub workdir: Option<String>,
    /// User to run the command as: a name in the machine, UID, or UID:GID
    #[arg(long, short, value_name = "USER")]
    pub user: Option<String>,
    /// Ends the command after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
}
