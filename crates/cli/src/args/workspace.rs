//! Flags of verbs on workspaces.

use clap::Args;

use super::Size;

/// Flags of `create`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                        agentiso create --name web\n  \
                        agentiso create --name big --vcpus 4 --memory 4096 --disk 40")]
pub struct Create {
    /// Name of the workspace, and its host name [default: made up]
    #[arg(long, short)]
    pub name: Option<String>,
    /// The machine.
    #[command(flatten)]
    pub size: Size,
    /// Starts a machine even if the pool has one ready
    #[arg(long)]
    pub no_pool: bool,
}

/// Flags of `stop`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  agentiso stop web\n  agentiso stop --force web")]
pub struct Stop {
    /// The workspace
    #[arg(value_name = "WS")]
    pub workspace: String,
    /// Switches it off instead of asking it to power off
    #[arg(long, short)]
    pub force: bool,
    /// Switches it off if it has not powered off after this many seconds [default: the configured time]
    #[arg(long, value_name = "SECONDS", conflicts_with = "force")]
    pub timeout: Option<u64>,
}

/// Flags of `rm`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  agentiso rm web\n  agentiso rm --force web web-1 web-2")]
pub struct Rm {
    /// Also removes workspaces that run
    #[arg(long, short)]
    pub force: bool,
    /// The workspaces
    #[arg(required = true, value_name = "WS")]
    pub workspaces: Vec<String>,
}

/// Flags of `fork`.
#[derive(Args, Debug)]
#[command(after_help = "The source goes on. The exit code is 1 if any of the forks could not be made.\n\n\
                        Examples:\n  \
                        agentiso fork web\n  \
                        agentiso fork web before-upgrade --name attempt\n  \
                        agentiso fork web --count 20 --all-or-nothing")]
pub struct Fork {
    /// The workspace
    #[arg(value_name = "WS")]
    pub workspace: String,
    /// One of its snapshots [default: as it is now]
    pub snapshot: Option<String>,
    /// Name of the fork, or what the names of several begin with [default: the workspace's]
    #[arg(long, short)]
    pub name: Option<String>,
    /// How many, 1 to 100
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    pub count: u32,
    /// If one cannot be made, makes none
    #[arg(long)]
    pub all_or_nothing: bool,
    /// Starts the fork anew on the snapshot's disk, without its memory
    #[arg(long, requires = "snapshot")]
    pub disk_only: bool,
}
