//! Flags of `completions` and `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Flags of `completions`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                        source <(agentiso completions bash)\n  \
                        agentiso completions fish > ~/.config/fish/completions/agentiso.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Flags of `man`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  agentiso man ~/.local/share/man/man1")]
pub struct Man {
    /// Directory for the pages; created if missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}
