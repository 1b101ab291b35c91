//! The commands, one file each. A new one needs a file, a `mod` line and an entry in the list below.

mod archive_file;
mod attend;
mod bench;
mod check;
mod completions;
mod cp;
mod daemon;
mod daemon_call;
mod edit;
mod env;
mod exec;
mod fork;
mod forward;
mod grant;
mod grow;
mod image;
mod inbox;
mod init;
mod interrupt;
mod jobs;
mod kernel;
mod label;
mod logs;
mod man;
mod net;
mod policy;
mod proxy;
mod read;
mod recover;
mod rename;
mod run;
mod secret;
mod serve;
mod sessions;
mod shell;
mod snapshot;
mod stats;
mod status;
mod timeline;
mod verbs;
mod waiting;
mod workspace;
mod write;

use crate::args;

pub use self::attend::FAILED as COMMAND_FAILED;
pub use self::policy::show_explanation;

use self::daemon_call::Daemon;
use self::interrupt::{interruptible, interruption};
pub use self::verbs::NoFlags;
use self::waiting::waiting;

verbs::verbs! {
    /// Run a command in a new machine, and remove the machine when the command ends
    Run(args::Run) => client(run::run),
    /// Create a workspace: a persistent machine with its own disk
    Create(args::Create) => client(workspace::create),
    /// List workspaces, with forks below their sources
    #[command(visible_aliases = ["list", "ps"])]
    Ls(args::Ls) => client(workspace::ls),
    /// Show details of a workspace
    #[command(after_help = "Examples:\n  agentiso info web\n  agentiso info web --json | jq .pid")]
    Info(args::One) => client(workspace::info),
    /// Start stopped workspaces
    Start(args::Start) => client(workspace::start),
    /// Stop workspaces; their disks are kept
    Stop(args::Stop) => client(workspace::stop),
    /// Save the memory of workspaces to disk and stop their machines; resume continues them
    Suspend(args::Suspend) => client(workspace::suspend),
    /// Continue suspended workspaces, with all their processes
    Resume(args::Resume) => client(workspace::resume),
    /// Remove workspaces with their snapshots; their forks are kept
    #[command(visible_alias = "delete")]
    Rm(args::Rm) => client(workspace::rm),
    /// Remove stopped workspaces
    Prune(args::Prune) => client(workspace::prune),
    /// Change memory, processors, time limits or automatic restart of a workspace
    Update(args::Update) => client(workspace::update),
    /// Run a command in a workspace
    Exec(args::Exec) => client(exec::exec),
    /// Open a shell in a workspace
    Shell(args::Shell) => client(shell::shell),
    /// Start, list, follow and kill background commands of a workspace
    #[command(subcommand)]
    Jobs(args::JobVerb) => client(jobs::jobs),
    /// Copy files and directories into, out of and between workspaces
    Cp(args::Cp) => client(cp::cp),
    /// Print a file from a workspace
    Read(args::Read) => client(read::read),
    /// Write standard input to a file in a workspace
    Write(args::Write) => client(write::write),
    /// Replace text in a file in a workspace
    Edit(args::Edit) => client(edit::edit),
    /// Take, list, compare, restore and remove snapshots of a workspace
    #[command(subcommand)]
    Snapshot(args::SnapshotVerb) => client(snapshot::snapshot),
    /// Create copies of a workspace, running or stopped, or of one of its snapshots
    Fork(args::Fork) => client(fork::fork),
    /// Rename a workspace
    Rename(rename::Rename) => client(rename::rename),
    /// Make an agent's session the owner of a workspace
    Grant(args::Grant) => client(grant::grant),
    /// List the sessions of agents
    #[command(after_help = "Example:\n  agentiso sessions")]
    Sessions(NoFlags) => client(sessions::sessions),
    /// Grow the disk of a running workspace
    Grow(args::Grow) => client(grow::grow),
    /// Set, remove and show labels of a workspace
    Label(args::Label) => client(label::label),
    /// Set, remove and list the environment variables of a workspace
    Env(args::Env) => client(env::env),
    /// Store secrets that workspaces use without seeing them
    #[command(subcommand)]
    Secret(secret::SecretVerb) => client(secret::secret),
    /// Forward ports of 127.0.0.1 to ports of a workspace
    #[command(subcommand)]
    Forward(args::ForwardVerb) => client(forward::forward),
    /// Change and show what workspaces may reach, and what they reached
    #[command(subcommand)]
    Net(args::NetVerb) => client(net::net),
    /// List and answer requests for approval
    Inbox(args::Inbox) => client(inbox::inbox),
    /// Show the serial console of a workspace's machine
    Logs(args::Logs) => client(logs::logs),
    /// Show live resource usage of running workspaces
    Stats(args::Stats) => client(stats::stats),
    /// Show the history of actions on one workspace or all
    Timeline(args::Timeline) => client(timeline::timeline),
    /// Show daemon status and resource usage
    #[command(after_help = "Example:\n  agentiso status")]
    Status(NoFlags) => client(status::status),
    /// Serve MCP over standard input and output
    Serve(args::Serve) => client(serve::serve),
    /// Start, stop and inspect the background daemon
    #[command(subcommand)]
    Daemon(args::DaemonVerb) => client(daemon::daemon),
    /// Explain what the command policy decides, and check policy files
    #[command(subcommand)]
    Policy(policy::PolicyVerb) => client(policy::policy),
    /// Run one command in a vault, through policy, checkpoint and sandbox
    Proxy(proxy::Proxy) => client(proxy::proxy),
    /// Prepare a kernel, an image, a template and the configuration; can be repeated
    Init(args::Init) => local(init::init),
    /// Check whether this host has everything agentiso needs, and show fixes
    #[command(after_help = "The exit code is 1 if machines cannot run.\n\nExample:\n  agentiso check")]
    Check(NoFlags) => client(check::check),
    /// List or recover workspaces that are missing from the database
    Recover(args::Recover) => local(recover::recover),
    /// Measure the speed of machine starts, commands and transfers on this host
    Bench(args::Bench) => local(bench::bench),
    /// Export workspaces to archives, and import them
    #[command(subcommand)]
    Workspace(args::WorkspaceVerb) => client(workspace::workspace),
    /// Build, import, pull, commit, export, list and remove images
    #[command(subcommand)]
    Image(args::ImageVerb) => local(image::image),
    /// Print a shell completion script
    Completions(args::Completions) => alone(completions::completions),
    /// Write manual pages
    Man(args::Man) => alone(man::man),
}
