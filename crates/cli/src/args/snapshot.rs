//! Flags of `snapshot`.

use clap::{Args, Subcommand};

use super::values::{Names, snapshots, workspaces};

/// Verbs of `snapshot`.
#[derive(Debug, Subcommand)]
pub enum SnapshotVerb {
    /// Take a snapshot of a workspace, running or stopped
    Create(TakeSnapshot),
    /// List the snapshots of a workspace as a tree
    #[command(
        visible_alias = "list",
        after_help = "A * marks the snapshot that the current state is based on. USED is what removing a \
                            snapshot would free, REFERENCED its full size including data shared with others.\n\nExample:\n  agentiso snapshot ls web"
    )]
    Ls {
        /// The workspace
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
        /// Output format.
        #[command(flatten)]
        only: Names,
    },
    /// Roll a workspace back to a snapshot; newer snapshots are kept
    Restore(Restore),
    /// Show which files changed between two snapshots, or since a snapshot
    Diff(Compare),
    /// Remove a snapshot; refused while forks need it
    #[command(visible_alias = "delete", after_help = "Example:\n  agentiso snapshot rm web before-upgrade")]
    Rm {
        /// The workspace
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
        /// The snapshot
        #[arg(add = snapshots())]
        name: String,
    },
}

/// Flags of `snapshot create`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                        agentiso snapshot create web clean\n  \
                        agentiso snapshot create web before-upgrade --memory --description 'all services up'")]
pub struct TakeSnapshot {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Name of the snapshot
    pub name: String,
    /// Include memory, so that restoring the snapshot continues the running processes
    #[arg(long, short)]
    pub memory: bool,
    /// Description
    #[arg(long, short, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub description: String,
}

/// Flags of `snapshot restore`.
#[derive(Args, Debug)]
#[command(
    after_help = "If the snapshot has memory, its processes continue. Otherwise a running workspace is restarted \
                        from the snapshot's disk, and a stopped one stays stopped.\n\n\
                        Examples:\n  \
                        agentiso snapshot restore web before-upgrade\n  \
                        agentiso snapshot restore web before-upgrade --disk-only"
)]
pub struct Restore {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// The snapshot
    #[arg(add = snapshots())]
    pub name: String,
    /// Restore only the disk, even if the snapshot has memory
    #[arg(long)]
    pub disk_only: bool,
}

/// Flags of `snapshot diff`.
#[derive(Args, Debug)]
#[command(
    after_help = "A is added, D removed, M modified, R renamed. Files of which only the times changed are not listed.\n\n\
                        Examples:\n  \
                        agentiso snapshot diff web clean                  since the snapshot clean\n  \
                        agentiso snapshot diff web clean broken --under /etc\n  \
                        agentiso snapshot diff web clean now --file /etc/hosts\n  \
                        agentiso snapshot diff web clean web-1:now        against a fork"
)]
pub struct Compare {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// A snapshot
    #[arg(value_name = "A", add = snapshots())]
    pub before: String,
    /// Another snapshot, or now; OTHER:NAME and OTHER:now refer to another workspace
    #[arg(value_name = "B", default_value = "now", add = snapshots())]
    pub after: String,
    /// Only this path and everything below it
    #[arg(long, value_name = "PATH", conflicts_with = "file")]
    pub under: Option<String>,
    /// Show how the text of this file changed
    #[arg(long, value_name = "PATH")]
    pub file: Option<String>,
}
