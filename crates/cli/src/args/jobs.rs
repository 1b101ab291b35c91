//! Flags of `jobs`.

use clap::{Args, Subcommand};

use super::Conditions;
use super::values::{Names, workspaces};

/// Verbs of `jobs`.
#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// Start a command in the background; a single argument is run by the shell
    Start(StartJob),
    /// List the jobs of a workspace
    #[command(
        visible_alias = "list",
        after_help = "Examples:\n  agentiso jobs ls web\n  agentiso jobs ls -q web"
    )]
    Ls {
        /// The workspace
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
        /// Output format.
        #[command(flatten)]
        only: Names,
    },
    /// Show the output of a job, at most the last 1 MiB
    #[command(after_help = "Examples:\n  agentiso jobs logs web 1\n  agentiso jobs logs web 1 --follow")]
    Logs {
        /// The job.
        #[command(flatten)]
        job: OneJob,
        /// Keep printing until the job ends
        #[arg(long, short)]
        follow: bool,
    },
    /// Send a signal to a job and all its child processes
    #[command(after_help = "Examples:\n  agentiso jobs kill web 1\n  agentiso jobs kill web 1 TERM")]
    Kill {
        /// The job.
        #[command(flatten)]
        job: OneJob,
        /// The signal, by name or number
        #[arg(default_value = "KILL")]
        signal: String,
    },
    /// Wait until a job ends; the exit code is the job's
    #[command(after_help = "Example:\n  agentiso jobs wait web 1")]
    Wait {
        /// The job.
        #[command(flatten)]
        job: OneJob,
    },
}

/// A job of a workspace.
#[derive(Args, Debug)]
pub struct OneJob {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Number of the job
    pub id: u32,
}

/// Flags of `jobs start`.
#[derive(Args, Debug)]
#[command(
    after_help = "A job keeps running when this command exits, and continues in restored snapshots with memory. It ends with its machine.\n\n\
                        Examples:\n  \
                        agentiso jobs start web make -j4\n  \
                        agentiso jobs start web 'while :; do date; sleep 1; done'"
)]
pub struct StartJob {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// How it runs.
    #[command(flatten)]
    pub conditions: Conditions,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub words: Vec<String>,
}
