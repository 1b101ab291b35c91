//! Flags of `jobs`.

use clap::{Args, Subcommand};

use super::Conditions;
use super::values::workspaces;

/// Flags of `jobs`.
#[derive(Args, Debug)]
#[command(
    after_help = "A job goes on when this command ends, through snapshots too; it ends with its machine.\n\n\
                        Examples:\n  \
                        agentiso jobs web\n  \
                        agentiso jobs web start -- make -j4\n  \
                        agentiso jobs web start -- 'while :; do date; sleep 1; done'\n  \
                        agentiso jobs web logs 1 --follow\n  \
                        agentiso jobs web kill 1 TERM\n  \
                        agentiso jobs web wait 1"
)]
pub struct Jobs {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// What to do [default: list its jobs]
    #[command(subcommand)]
    pub verb: Option<JobVerb>,
}

/// Verbs of `jobs`.
#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// Start a command and leave it running; a single word is a line for the shell
    Start(StartJob),
    /// Show what a job printed, the newest 1 MiB
    Logs {
        /// Its number
        id: u32,
        /// Goes on until the job ends
        #[arg(long, short)]
        follow: bool,
    },
    /// Send a signal to a job and all it started
    Kill {
        /// Its number
        id: u32,
        /// The signal, by name or number
        #[arg(default_value = "KILL")]
        signal: String,
    },
    /// Wait for a job's end; the exit code is its own
    Wait {
        /// Its number
        id: u32,
    },
}

/// Flags of `jobs start`.
#[derive(Args, Debug)]
pub struct StartJob {
    /// How it runs.
    #[command(flatten)]
    pub conditions: Conditions,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub words: Vec<String>,
}
