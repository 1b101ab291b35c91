//! Flags of commands that work on whole workspaces.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::quantity::{PortPair, gibibytes, mebibytes, ports, seconds, seconds_or_zero};
use super::values::{Names, key_value, snapshots, workspaces};
use super::{NetworkFlags, Size};

/// A workspace and nothing else.
#[derive(Args, Debug)]
pub struct One {
    /// The workspace: its name, its id, or at least 6 digits of its short id
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
}

/// Workspaces by name, by label, or all of them.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub struct Selection {
    /// The workspaces
    #[arg(value_name = "WS", add = workspaces())]
    pub workspaces: Vec<String>,
    /// All workspaces with this label; may be given more than once
    #[arg(long = "label", short, value_name = "KEY=VALUE", value_parser = key_value, conflicts_with = "workspaces")]
    pub labels: Vec<(String, String)>,
    /// All workspaces
    #[arg(long, conflicts_with_all = ["workspaces", "labels"])]
    pub all: bool,
}

/// Verbs of `workspace`.
#[derive(Debug, Subcommand)]
pub enum WorkspaceVerb {
    /// Write a workspace's files, size and labels to an archive
    #[command(after_help = "A running workspace is paused for a moment. Memory, variables, snapshots and \
                            forwards are not exported.\n\nExample:\n  agentiso workspace export web web.agentiso")]
    Export {
        /// The workspace: its name, its id, or at least 6 digits of its short id
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
        /// Archive to write; an existing file is replaced
        file: PathBuf,
    },
    /// Create a workspace from an exported archive, and start it
    #[command(after_help = "Its files become a new image, NAME-import, which is kept when the workspace is \
                            removed.\n\nExample:\n  agentiso workspace import web.agentiso --name copy")]
    Import {
        /// The archive
        file: PathBuf,
        /// Name of the workspace [default: the one in the archive]
        #[arg(long, short)]
        name: Option<String>,
    },
}

/// Flags of `start`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  agentiso start web\n  agentiso start --label team=blue")]
pub struct Start {
    /// Which workspaces.
    #[command(flatten)]
    pub which: Selection,
}

/// Flags of `suspend`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  agentiso suspend web\n  agentiso suspend --all")]
pub struct Suspend {
    /// Which workspaces.
    #[command(flatten)]
    pub which: Selection,
}

/// Flags of `resume`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  agentiso resume web\n  agentiso resume --all")]
pub struct Resume {
    /// Which workspaces.
    #[command(flatten)]
    pub which: Selection,
}

/// Flags of `create`.
#[derive(Args, Debug)]
#[command(
    after_help = "With a command, create runs it in the new workspace, as exec does, and the exit code is the \
                        command's. If a variable or a port is rejected, no workspace is created.\n\n\
                        Examples:\n  \
                        agentiso create --name web\n  \
                        agentiso create --name big --vcpus 4 --memory 4G --disk 40G\n  \
                        agentiso create --label team=blue --ttl 1h --idle-stop 10m\n  \
                        agentiso create --name build --net packages\n  \
                        agentiso create --name app --env STAGE=test --forward 8080:80 -- python3 --version"
)]
pub struct Create {
    /// Name of the workspace, also used as its host name [default: generated]
    #[arg(long, short)]
    pub name: Option<String>,
    /// The machine.
    #[command(flatten)]
    pub size: Size,
    /// What it may reach.
    #[command(flatten)]
    pub network: Box<NetworkFlags>,
    /// Start a new machine even if the pool has one ready
    #[arg(long)]
    pub no_pool: bool,
    /// Label to set; may be given more than once
    #[arg(long = "label", short, value_name = "KEY=VALUE", value_parser = key_value)]
    pub labels: Vec<(String, String)>,
    /// Remove it after this time: 90s, 10m, 1h, 2d
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub ttl: Option<u64>,
    /// Stop it after this time without use
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub idle_stop: Option<u64>,
    /// Start it when the host or the daemon starts, unless it was stopped explicitly
    #[arg(long)]
    pub restart: bool,
    /// Set a variable for every command in it; NAME alone takes its value from this environment
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Forward a port of 127.0.0.1 to a port of the workspace; PORT alone uses a free port of the host
    #[arg(long, short = 'p', value_name = "[HOST:]PORT", value_parser = ports)]
    pub forward: Vec<PortPair>,
    /// Command to run in it, and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub words: Vec<std::ffi::OsString>,
}

/// Flags of `ls`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                        agentiso ls\n  \
                        agentiso ls --state running --label team=blue\n  \
                        agentiso ls -q                            names only\n  \
                        agentiso ls --json | jq -r '.workspaces[].name'")]
pub struct Ls {
    /// Only workspaces with this label; may be given more than once
    #[arg(long = "label", short, value_name = "KEY=VALUE", value_parser = key_value)]
    pub labels: Vec<(String, String)>,
    /// Only workspaces in this state
    #[arg(long, short, value_enum)]
    pub state: Option<State>,
    /// Output format.
    #[command(flatten)]
    pub only: Names,
}

/// The state of a workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum State {
    /// Its machine is running
    Running,
    /// It has no machine
    Stopped,
    /// Its memory is saved on disk
    Suspended,
}

impl From<State> for agentiso_core::action::State {
    fn from(state: State) -> Self {
        match state {
            State::Running => Self::Running,
            State::Stopped => Self::Stopped,
            State::Suspended => Self::Suspended,
        }
    }
}

/// Flags of `stop`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  agentiso stop web\n  agentiso stop --force web db\n  agentiso stop --all"
)]
pub struct Stop {
    /// Which workspaces.
    #[command(flatten)]
    pub which: Selection,
    /// Kill the machine instead of asking it to power off
    #[arg(long, short)]
    pub force: bool,
    /// Kill the machine if it has not powered off after this time [default: the configured time]
    #[arg(long, value_name = "TIME", value_parser = seconds_or_zero, conflicts_with = "force")]
    pub timeout: Option<u64>,
}

/// Flags of `rm`.
#[derive(Args, Debug)]
#[command(
    after_help = "Nothing is removed if one of the workspaces is running, unless --force is given.\n\n\
                        Examples:\n  \
                        agentiso rm web\n  \
                        agentiso rm --force web web-1 web-2\n  \
                        agentiso rm --force --label team=blue"
)]
pub struct Rm {
    /// Also remove running workspaces
    #[arg(long, short)]
    pub force: bool,
    /// Which workspaces.
    #[command(flatten)]
    pub which: Selection,
}

/// Flags of `prune`.
#[derive(Args, Debug)]
#[command(
    after_help = "Asks for confirmation unless --force is given; the exit code is 1 if the answer is no. Running and suspended \
                        workspaces are kept.\n\n\
                        Examples:\n  \
                        agentiso prune --dry-run\n  \
                        agentiso prune --force --unused-for 7d\n  \
                        agentiso prune --label team=blue"
)]
pub struct Prune {
    /// Only workspaces with this label; may be given more than once
    #[arg(long = "label", short, value_name = "KEY=VALUE", value_parser = key_value)]
    pub labels: Vec<(String, String)>,
    /// Only workspaces that have not been used for this time: 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub unused_for: Option<u64>,
    /// Show what would be removed without removing it
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub force: bool,
}

/// Flags of `update`.
#[derive(Args, Debug)]
#[command(
    after_help = "Changes of memory and CPUs take effect at the next start; a stopped workspace has the \
                        new size at once.\nA time of 0 means never.\n\n\
                        Examples:\n  \
                        agentiso update web --memory 2G --vcpus 2\n  \
                        agentiso update web --ttl 8h --idle-stop 0\n  \
                        agentiso update web --restart yes"
)]
pub struct Update {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// What to change.
    #[command(flatten)]
    pub changes: Changes,
}

/// What `update` changes: at least one thing.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub struct Changes {
    /// Virtual CPUs
    #[arg(long, value_name = "N")]
    pub vcpus: Option<u32>,
    /// Memory: 512M, 2G; a plain number is in MiB
    #[arg(long, short, value_name = "SIZE", value_parser = mebibytes)]
    pub memory: Option<u32>,
    /// Remove it after this time, counted from now: 90s, 10m, 1h, 2d
    #[arg(long, value_name = "TIME", value_parser = seconds_or_zero)]
    pub ttl: Option<u64>,
    /// Stop it after this time without use
    #[arg(long, value_name = "TIME", value_parser = seconds_or_zero)]
    pub idle_stop: Option<u64>,
    /// Whether to start it when the host or the daemon starts, unless it was stopped explicitly
    #[arg(long, value_enum)]
    pub restart: Option<Switch>,
}

/// On or off.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Switch {
    /// Start with the host or the daemon
    Yes,
    /// Do not start automatically
    No,
}

/// Flags of `fork`.
#[derive(Args, Debug)]
#[command(
    after_help = "The source keeps running. The exit code is 1 if any of the forks could not be created.\n\n\
                        Examples:\n  \
                        agentiso fork web\n  \
                        agentiso fork web before-upgrade --name attempt\n  \
                        agentiso fork web --count 20 --all-or-nothing"
)]
pub struct Fork {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// One of its snapshots [default: the current state]
    #[arg(add = snapshots())]
    pub snapshot: Option<String>,
    /// Name of the fork, or the prefix of the names of several [default: the workspace's name]
    #[arg(long, short)]
    pub name: Option<String>,
    /// Number of forks, 1 to 100
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub count: u32,
    /// If one fork fails, create none
    #[arg(long)]
    pub all_or_nothing: bool,
    /// Boot the fork from the snapshot's disk, without its memory
    #[arg(long, requires = "snapshot")]
    pub disk_only: bool,
    /// Let the forks use the secrets of the workspace, with placeholders of their own
    #[arg(long)]
    pub secrets: bool,
    /// What the forks may reach, if not the same as the workspace.
    #[command(flatten)]
    pub network: Box<NetworkFlags>,
}

/// Flags of `grant`.
#[derive(Args, Debug)]
#[command(
    after_help = "The session becomes its owner, and it counts against the session's quota. Variables set by sessions are \
                        cleared; those set by the user stay.\n\nExample:\n  agentiso grant web 1f6c0a2e"
)]
pub struct Grant {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Id of the session, or its first characters; `agentiso sessions` lists them
    pub session: String,
}

/// Flags of `grow`.
#[derive(Args, Debug)]
#[command(
    after_help = "The workspace must be running; no restart is needed. Restoring an earlier snapshot also \
                        restores its smaller disk.\n\nExample:\n  agentiso grow web 20G"
)]
pub struct Grow {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// New size of its disk: 20G; a plain number is in GiB
    #[arg(value_name = "SIZE", value_parser = gibibytes)]
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
    /// Labels to set; KEY- removes a label
    #[arg(value_name = "KEY=VALUE | KEY-")]
    pub changes: Vec<String>,
}

/// Verbs of `forward`.
#[derive(Debug, Subcommand)]
pub enum ForwardVerb {
    /// Forward a port of 127.0.0.1 to a port of a workspace
    #[command(
        after_help = "Forwards work without a network in the workspace, and stay until they are removed.\n\n\
                        Examples:\n  \
                        agentiso forward add web 80               on a free port of the host\n  \
                        agentiso forward add web 8080:80\n  \
                        agentiso forward add web 5432 --to db     port 5432 of db, over the network of web"
    )]
    Add {
        /// The workspace
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
        /// Port of the workspace, optionally preceded by the port of 127.0.0.1, at least 1024 [default: a free one]
        #[arg(value_name = "[HOST:]PORT", value_parser = ports)]
        ports: PortPair,
        /// Another workspace whose port is meant; connections go there over the network of WS, if the rules of both allow it
        #[arg(long, value_name = "WS", add = workspaces())]
        to: Option<String>,
    },
    /// List the forwards of a workspace
    #[command(visible_alias = "list", after_help = "Example:\n  agentiso forward ls web")]
    Ls {
        /// The workspace
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
        /// Output format.
        #[command(flatten)]
        only: Names,
    },
    /// Remove the forwards of a port of a workspace
    #[command(
        visible_alias = "delete",
        after_help = "Examples:\n  \
                        agentiso forward rm web 80                all forwards of port 80\n  \
                        agentiso forward rm web 8080:80           only the one from 8080"
    )]
    Rm {
        /// The workspace
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
        /// Port of the workspace, optionally preceded by the port of 127.0.0.1 [default: all of them]
        #[arg(value_name = "[HOST:]PORT", value_parser = ports)]
        ports: PortPair,
    },
}

/// Flags of `env`.
#[derive(Args, Debug)]
#[command(
    after_help = "Variables are set for every later command. Values are kept in memory only and never shown.\n\n\
                        Examples:\n  \
                        agentiso env web                          list the names\n  \
                        agentiso env web STAGE=test TOKEN         TOKEN takes its value from this environment\n  \
                        agentiso env web STAGE-"
)]
pub struct Env {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Variables to set; NAME alone takes its value from this environment; NAME- removes a variable
    #[arg(value_name = "NAME[=VALUE] | NAME-")]
    pub changes: Vec<String>,
}
