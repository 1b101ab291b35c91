//! Flags of `daemon` and `serve`.

use agentiso_api::mcp::Selection;
use clap::{Args, Subcommand};

/// Verbs of `daemon`.
#[derive(Debug, Subcommand)]
pub enum DaemonVerb {
    /// Start the daemon; commands that need it start it automatically
    #[command(after_help = "Example:\n  agentiso daemon start")]
    Start,
    /// Stop the daemon; machines keep running unless --machines
    #[command(after_help = "Examples:\n  agentiso daemon stop\n  agentiso daemon stop --machines")]
    Stop {
        /// Stop all machines first
        #[arg(long)]
        machines: bool,
    },
    /// Restart the daemon; machines keep running
    #[command(after_help = "Example:\n  agentiso daemon restart")]
    Restart,
    /// Show whether the daemon is running, since when, and where its log is
    #[command(
        after_help = "The exit code is 1 if it is not running.\n\nExample:\n  agentiso daemon status --json"
    )]
    Status,
    /// Run the daemon in the foreground until it is interrupted
    #[command(after_help = "Example:\n  agentiso daemon run --metrics-port 9464")]
    Run(DaemonRun),
}

/// Flags of `daemon run`.
#[derive(Args, Debug)]
pub struct DaemonRun {
    /// Port on 127.0.0.1 for /metrics and /healthz [default: the configured one]
    #[arg(long, value_name = "PORT")]
    pub metrics_port: Option<u16>,
    /// Report to the parent process when the daemon can be reached
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// Flags of `serve`.
#[derive(Args, Debug)]
#[command(after_help = "MCP clients start this command and talk to it over standard input and output.\n\
                        Machines keep running when it exits.\n\n\
                        Example, for a client's configuration:\n  \
                        {\"mcpServers\": {\"agentiso\": {\"command\": \"agentiso\", \"args\": [\"serve\"]}}}\n\n\
                        To see what a client sees:\n  \
                        agentiso serve --tools core")]
pub struct Serve {
    /// Tools to list: core, standard or full, optionally followed by single tools, as in core,snapshot_diff;
    /// tools that are not listed can still be called
    #[arg(long, value_name = "TOOLS", default_value = "standard", value_parser = selection)]
    pub tools: Selection,
    /// If the daemon is not running, start it with metrics on this port of 127.0.0.1
    #[arg(long, value_name = "PORT")]
    pub metrics_port: Option<u16>,
}

/// Reads a selection of tools.
fn selection(text: &str) -> Result<Selection, String> {
    text.parse().map_err(|failure: agentiso_core::Failure| {
        [Some(failure.message()), failure.remedy()].into_iter().flatten().collect::<Vec<_>>().join("; ")
    })
}
