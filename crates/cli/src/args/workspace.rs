//! Flags of verbs on workspaces as a whole.

use clap::{Args, ValueEnum};

use super::Size;
use super::values::{key_value, workspaces};

/// A workspace and nothing else.
#[derive(Args, Debug)]
pub struct One {
    /// The workspace: its name, its id, or the first digits of its short id
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
}

/// Flags of `create`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                        agentiso create --name web\n  \
                        agentiso create --name big --vcpus 4 --memory 4096 --disk 40\n  \
                        agentiso create --label team=blue --ttl 3600 --idle-stop 600")]
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
    /// A word to find it by; may be given more than once
    #[arg(long = "label", short, value_name = "KEY=VALUE", value_parser = key_value)]
    pub labels: Vec<(String, String)>,
    /// Removes it after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub ttl: Option<u64>,
    /// Stops it after this many seconds in which nobody used it
    #[arg(long, value_name = "SECONDS")]
    pub idle_stop: Option<u64>,
}

/// Flags of `ls`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                        agentiso ls\n  \
                        agentiso ls --state running --label team=blue\n  \
                        agentiso ls --json | jq -r '.workspaces[].name'")]
pub struct Ls {
    /// Only those with this label; may be given more than once
    #[arg(long = "label", short, value_name = "KEY=VALUE", value_parser = key_value)]
    pub labels: Vec<(String, String)>,
    /// Only those in this state
    #[arg(long, short, value_enum)]
    pub state: Option<State>,
}

/// The state of a workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum State {
    /// Its machine runs
    Running,
    /// It has no machine
    Stopped,
    /// Its machine waits on the disk
    Suspended,
}

impl State {
    /// As the daemon calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Suspended => "suspended",
        }
    }
}

/// Flags of `stop`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  agentiso stop web\n  agentiso stop --force web")]
pub struct Stop {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
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
    #[arg(required = true, value_name = "WS", add = workspaces())]
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
    #[arg(value_name = "WS", add = workspaces())]
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

/// Flags of `rename`.
#[derive(Args, Debug)]
#[command(after_help = "Its host name inside follows at once. Its id stays.\n\nExample:\n  \
                        agentiso rename web-1 candidate")]
pub struct Rename {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Its new name, which must be free
    pub name: String,
}

/// Flags of `grow`.
#[derive(Args, Debug)]
#[command(
    after_help = "It must run, and need not be restarted. Snapshots keep the size they have: restoring an earlier \
                        one makes the disk as small again.\n\nExample:\n  agentiso grow web 20"
)]
pub struct Grow {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// How large its disk is to be, in GiB
    #[arg(value_name = "GIB")]
    pub disk: u32,
}

/// Flags of `label`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                        agentiso label web                        show its labels\n  \
                        agentiso label web team=blue stage=test\n  \
                        agentiso label web stage-")]
pub struct Label {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Labels to set, and with a - behind their name those to remove
    #[arg(value_name = "KEY=VALUE | KEY-")]
    pub changes: Vec<String>,
}

/// Flags of `forward`.
#[derive(Args, Debug)]
#[command(
    after_help = "Works without any network in the workspace. A forward stays until it is removed.\n\n\
                        Examples:\n  \
                        agentiso forward web 80                   on a free port\n  \
                        agentiso forward web 80 8080\n  \
                        agentiso forward web --ls\n  \
                        agentiso forward web --rm 80"
)]
pub struct Forward {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Port in the workspace
    #[arg(required_unless_present_any = ["ls", "rm"], conflicts_with_all = ["ls", "rm"])]
    pub port: Option<u16>,
    /// Port on 127.0.0.1 of this machine, at least 1024 [default: a free one]
    #[arg(value_name = "HOSTPORT")]
    pub host_port: Option<u16>,
    /// Lists the workspace's forwards
    #[arg(long, conflicts_with = "rm")]
    pub ls: bool,
    /// Ends the forward to this port of the workspace
    #[arg(long, value_name = "PORT")]
    pub rm: Option<u16>,
}

/// Flags of `env`.
#[derive(Args, Debug)]
#[command(after_help = "Every later command gets them. They are kept in memory only, and never shown.\n\n\
                        Examples:\n  \
                        agentiso env web                          the names there are\n  \
                        agentiso env web STAGE=test TOKEN         TOKEN as it is set here\n  \
                        agentiso env web STAGE-")]
pub struct Env {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Variables to set, NAME alone with the value it has here, and with a - behind their name those to remove
    #[arg(value_name = "NAME[=VALUE] | NAME-")]
    pub changes: Vec<String>,
}
