//! The command line of `avfs`.

use std::path::PathBuf;

use agentiso_core::Failure;
use clap::{Parser, Subcommand};

use super::context::Context;
use super::{
    checkpoint, completions, files, history, host, inbox, man, policy, proxy, session, shell, upkeep, vault,
};

/// Versioned files for AI agents, and a policy boundary in front of every command.
#[derive(Debug, Parser)]
#[command(
    name = "avfs",
    version,
    about = "Versioned files for AI agents, and a policy boundary in front of every command",
    after_help = "The vault is named by --vault, AVFS_VAULT, or avfs vault use for the present directory. Paths in \
                  vaults begin with a slash. With --json every command prints one JSON value, errors too.\n\n\
                  Examples:\n  avfs vault create work\n  avfs vault fork work task-1\n  \
                  avfs --vault task-1 write /hello.txt hello\n  \
                  avfs --json --vault task-1 proxy exec -- wc -l hello.txt",
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    /// The vault to use
    #[arg(long, global = true, value_name = "NAME", overrides_with = "vault")]
    pub vault: Option<String>,
    /// Print results and errors as JSON on standard output
    #[arg(long, global = true, overrides_with = "json")]
    pub json: bool,
    /// Print results and nothing else
    #[arg(long, short, global = true, overrides_with = "quiet")]
    pub quiet: bool,
    /// Configuration file to use
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Declares the commands: help text, flags, and the function that performs the command.
macro_rules! verbs {
    ($($(#[$attribute:meta])* $verb:ident($flags:ty) => $perform:path,)+) => {
        /// A command.
        #[derive(Debug, Subcommand)]
        pub enum Verb {
            $($(#[$attribute])* $verb($flags),)+
        }

        impl Verb {
            /// Performs the command and returns its exit code.
            pub fn perform(self, context: &Context) -> Result<u8, Failure> {
                match self {
                    $(Self::$verb(flags) => $perform(context, flags),)+
                }
            }
        }
    };
}

verbs! {
    /// Create, list, fork, rename and remove vaults
    #[command(subcommand)]
    Vault(vault::VaultVerb) => vault::vault,
    /// Save, list, compare, restore and remove checkpoints
    #[command(subcommand, visible_alias = "snapshot")]
    Checkpoint(checkpoint::CheckpointVerb) => checkpoint::checkpoint,
    /// Run one command through policy, checkpoint and sandbox
    #[command(subcommand)]
    Proxy(proxy::ProxyVerb) => proxy::proxy,
    /// Start, use and end sandboxes that stay
    #[command(subcommand)]
    Session(session::SessionVerb) => session::session,
    /// Serves a session. Started by `session start`.
    #[command(hide = true, name = "serve-session")]
    ServeSession(session::ServeSession) => session::serve,
    /// List and answer requests for approval
    Inbox(inbox::Inbox) => inbox::inbox,
    /// Show what the policy decides about commands, and set the policy of a vault
    #[command(subcommand)]
    Policy(policy::PolicyVerb) => policy::policy,
    /// List a directory
    Ls(files::Ls) => files::ls,
    /// Print a file
    Cat(files::Cat) => files::cat,
    /// Write a file
    Write(files::Write) => files::write,
    /// Append to a file
    Append(files::Append) => files::append,
    /// Copy a file or directory
    Cp(files::Cp) => files::cp,
    /// Move or rename a file or directory
    Mv(files::Mv) => files::mv,
    /// Remove files and directories
    Rm(files::Rm) => files::rm,
    /// Make a directory
    Mkdir(files::Mkdir) => files::mkdir,
    /// Show a directory and everything below it
    Tree(files::Tree) => files::tree,
    /// Show details of a file or directory
    Stat(files::StatFlags) => files::stat,
    /// Find files by name, kind, size, tag or metadata
    Find(files::Find) => files::find,
    /// Find lines that match a regular expression
    Grep(files::Grep) => files::grep,
    /// Find files by words
    Search(files::Search) => files::search,
    /// Print the working directory in the vault, which is always /
    Pwd(files::Pwd) => files::pwd,
    /// Show the versions of a file
    Log(history::Log) => history::log,
    /// Give a file the content of one of its versions
    Checkout(history::Checkout) => history::checkout,
    /// Give a file the content it had before its last change
    Revert(history::Revert) => history::revert,
    /// Compare files, versions, vaults, checkpoints and directories of the host
    Diff(history::Diff) => history::diff,
    /// Undo the last changes of a vault
    Undo(history::Undo) => history::undo,
    /// Repeat changes that were undone
    Redo(history::Redo) => history::redo,
    /// Merge another vault into this one
    Merge(history::Merge) => history::merge,
    /// Tag files, and list tags
    Tag(files::Tag) => files::tag,
    /// Remove a tag from a file
    Untag(files::Untag) => files::untag,
    /// Set, show and remove metadata of files
    Meta(files::Meta) => files::meta,
    /// Copy files of the host, archives or git repositories into a vault
    Import(host::Import) => host::import,
    /// Copy files of a vault to the host, to an archive or to a git repository
    Export(host::Export) => host::export,
    /// Run a command on one file of a vault
    Exec(proxy::ExecFile) => proxy::exec_file,
    /// Mount a vault as a directory, or list mounts
    Mount(host::Mount) => host::mount,
    /// Unmount a vault, and keep what was changed
    #[command(visible_alias = "umount")]
    Unmount(host::Unmount) => host::unmount,
    /// Run a shell or a command that sees a vault, without a sandbox
    Enter(host::Enter) => host::enter,
    /// Serves a mount. Started by `mount`.
    #[command(hide = true, name = agentiso_proxy::SERVE_MOUNT)]
    ServeMount(host::ServeMount) => host::serve_mount,
    /// Limit the size of a vault
    Quota(vault::Quota) => vault::quota,
    /// Show counts and sizes
    Stats(upkeep::Stats) => upkeep::stats,
    /// Remove data that no vault needs
    Gc(upkeep::Gc) => upkeep::gc,
    /// Look for damage, and repair it
    Fsck(upkeep::Fsck) => upkeep::fsck,
    /// Remove old history
    Prune(upkeep::Prune) => upkeep::prune,
    /// Give space back to the file system
    Compact(upkeep::Compact) => upkeep::compact,
    /// Prune, collect and compact
    Maintain(upkeep::Maintain) => upkeep::maintain,
    /// Show what was done, and by whom
    Audit(upkeep::Audit) => upkeep::audit,
    /// Open an interactive shell for avfs commands
    Shell(shell::Shell) => shell::shell,
    /// Print a shell completion script
    Completions(completions::Completions) => completions::completions,
    /// Write the manual pages of avfs
    Man(man::Man) => man::man,
    /// Print shell aliases for common commands
    Aliases(completions::Aliases) => completions::aliases,
}
