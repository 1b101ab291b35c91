//! Flags of `logs`, `stats` and `timeline`.

use clap::Args;

use super::values::workspaces;

/// Flags of `logs`.
#[derive(Args, Debug)]
#[command(after_help = "Shows the machine's serial console. It does not contain the output of commands.\n\n\
                        Examples:\n  agentiso logs web\n  agentiso logs web -n 20 --follow")]
pub struct Logs {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Number of lines to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub lines: u32,
    /// Keep printing new output until interrupted
    #[arg(long, short, conflicts_with = "json")]
    pub follow: bool,
}

/// Flags of `stats`.
#[derive(Args, Debug)]
#[command(
    after_help = "MEMORY is host memory used by this workspace alone; OF is the memory size of the workspace. CPU is in percent of one \
                        processor. On a terminal the view is updated until interrupted.\n\n\
                        Examples:\n  agentiso stats\n  agentiso stats web --once\n  agentiso stats --json"
)]
pub struct Stats {
    /// The workspaces [default: all running ones]
    #[arg(value_name = "WS", add = workspaces())]
    pub workspaces: Vec<String>,
    /// Print once and exit
    #[arg(long)]
    pub once: bool,
}

/// Flags of `timeline`.
#[derive(Args, Debug)]
#[command(
    after_help = "Changes by all clients and refused calls, newest first. Secrets and file contents are not recorded.\n\n\
                        Examples:\n  agentiso timeline\n  agentiso timeline web -n 5 --all"
)]
pub struct Timeline {
    /// The workspace; a removed one by its id [default: all]
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: Option<String>,
    /// Also show successful calls that only read
    #[arg(long, short)]
    pub all: bool,
    /// Number of events to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}
