//! Flags of verbs on files in a workspace.

use std::path::PathBuf;

use clap::Args;

use super::values::workspaces;

/// Flags of `cp`.
#[derive(Args, Debug)]
#[command(
    after_help = "One side is WS:PATH, the other a path here. A directory is copied with all in it. If the \
                        destination is a\ndirectory that is there, the copy gets its source's name in it.\n\n\
                        Examples:\n  \
                        agentiso cp ./src web:/srv/\n  \
                        agentiso cp web:/var/log/syslog .\n  \
                        agentiso cp config.toml web:/etc/app.toml"
)]
pub struct Cp {
    /// What to copy
    #[arg(value_name = "SRC")]
    pub source: PathBuf,
    /// Where to
    #[arg(value_name = "DST")]
    pub destination: PathBuf,
}

/// Flags of `read`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  agentiso read web /etc/os-release")]
pub struct Read {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Absolute path in the workspace
    pub path: String,
}

/// Flags of `write`.
#[derive(Args, Debug)]
#[command(
    after_help = "Whoever reads the file meanwhile sees the old content or the new. Up to 16 MiB; cp takes \
                        more.\n\n\
                        Examples:\n  \
                        agentiso write web /etc/motd < motd\n  \
                        echo 'echo hello' | agentiso write web /usr/local/bin/hello --mode 755"
)]
pub struct Write {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Absolute path in the workspace; missing directories are made
    pub path: String,
    /// Permissions [default: those of the file that is replaced, else 644]
    #[arg(long, value_name = "OCTAL")]
    pub mode: Option<String>,
    /// Adds to the file instead of replacing it
    #[arg(long, short)]
    pub append: bool,
}

/// Flags of `edit`.
#[derive(Args, Debug)]
#[command(after_help = "OLD must be there exactly once, unless --all.\n\n\
                        Examples:\n  \
                        agentiso edit web /etc/app.toml 'port = 80' 'port = 8080'\n  \
                        agentiso edit web /etc/hosts old-name new-name --all")]
pub struct Edit {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Absolute path in the workspace
    pub path: String,
    /// The text to replace, exactly
    #[arg(allow_hyphen_values = true)]
    pub old: String,
    /// What to put in its place
    #[arg(allow_hyphen_values = true)]
    pub new: String,
    /// Replaces it wherever it is
    #[arg(long)]
    pub all: bool,
}
