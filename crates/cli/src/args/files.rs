//! Flags of commands that work on files of a workspace.

use std::path::PathBuf;

use clap::Args;

use super::values::{paths, workspaces};

/// Flags of `cp`.
#[derive(Args, Debug)]
#[command(
    override_usage = "agentiso cp [OPTIONS] <SRC>... <DST>",
    after_help = "WS:PATH is a path in a workspace. A relative path starts at the home directory of root.\nTo use a local path \
                        that contains a colon, put a slash before the colon: ./a:b.\n\n\
                        Directories are copied recursively. If the destination is a directory, the source is copied \
                        into it; DIR/. copies the contents of DIR and merges them with existing files. Permissions and \
                        times are kept, owners are not. Sockets, pipes and devices are skipped and listed.\n\n\
                        Examples:\n  \
                        agentiso cp ./src web:/srv/\n  \
                        agentiso cp ./site/. web:/var/www\n  \
                        agentiso cp a.txt b.txt web:/tmp/\n  \
                        agentiso cp web:/etc/os-release .\n  \
                        agentiso cp web:notes.txt db:/root/\n  \
                        agentiso cp web:/etc/passwd - | wc -l\n  \
                        tar c . | agentiso cp - web:/tmp/here.tar"
)]
pub struct Cp {
    /// Sources, followed by the destination; - is standard input or output
    #[arg(value_name = "PATH", required = true, num_args = 2.., add = paths())]
    pub paths: Vec<PathBuf>,
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
#[command(after_help = "The file is replaced atomically. Up to 16 MiB; use cp for larger files.\n\n\
                        Examples:\n  \
                        agentiso write web /etc/motd < motd\n  \
                        echo 'echo hello' | agentiso write web /usr/local/bin/hello --mode 755")]
pub struct Write {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Absolute path in the workspace; missing directories are created
    pub path: String,
    /// Permissions [default: those of the replaced file, otherwise 644]
    #[arg(long, value_name = "OCTAL")]
    pub mode: Option<String>,
    /// Append to the file instead of replacing it
    #[arg(long, short)]
    pub append: bool,
}

/// Flags of `edit`.
#[derive(Args, Debug)]
#[command(after_help = "OLD must occur exactly once, unless --all is given.\n\n\
                        Examples:\n  \
                        agentiso edit web /etc/app.toml 'port = 80' 'port = 8080'\n  \
                        agentiso edit web /etc/hosts old-name new-name --all")]
pub struct Edit {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Absolute path in the workspace
    pub path: String,
    /// The exact text to replace
    #[arg(allow_hyphen_values = true)]
    pub old: String,
    /// The replacement text
    #[arg(allow_hyphen_values = true)]
    pub new: String,
    /// Replace every occurrence
    #[arg(long)]
    pub all: bool,
}
