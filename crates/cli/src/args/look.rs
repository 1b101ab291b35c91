//! Flags of verbs that only look.

use clap::Args;

use super::values::workspaces;

/// Flags of `logs`.
#[derive(Args, Debug)]
#[command(after_help = "This is the machine's serial console. What commands printed is not there.\n\n\
                        Examples:\n  agentiso logs web\n  agentiso logs web -n 20 --follow")]
pub struct Logs {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// The last so many lines
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub lines: u32,
    /// Keeps printing new output until it is interrupted
    #[arg(long, short, conflicts_with = "json")]
    pub follow: bool,
}

/// Flags of `stats`.
#[derive(Args, Debug)]
#[command(
    after_help = "MEMORY is what only this workspace uses of the host's memory, OF the memory it was given. CPU is in percent of one\n\
                        processor. On a terminal the view is live until it is interrupted.\n\n\
                        Examples:\n  agentiso stats\n  agentiso stats web --once\n  agentiso stats --json"
)]
pub struct Stats {
    /// The workspaces [default: all that run]
    #[arg(value_name = "WS", add = workspaces())]
    pub workspaces: Vec<String>,
    /// Shows it once
    #[arg(long)]
    pub once: bool,
}

/// Flags of `timeline`.
#[derive(Args, Debug)]
#[command(
    after_help = "Actions of all clients, newest first. Secrets and file contents are not recorded.\n\n\
                        Examples:\n  agentiso timeline\n  agentiso timeline web -n 5"
)]
pub struct Timeline {
    /// The workspace; a removed one by its id [default: all]
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: Option<String>,
    /// The last so many events
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}
