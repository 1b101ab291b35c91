//! What can be typed.

mod command;
mod daemon;
mod image;
mod size;
mod snapshot;
mod workspace;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use self::command::{Command, Exec, Run};
pub use self::daemon::{DaemonRun, DaemonVerb, Serve, Tools};
pub use self::image::{ImageVerb, NewImage};
pub use self::size::Size;
pub use self::snapshot::{Compare, Restore, SnapshotVerb, TakeSnapshot};
pub use self::workspace::{Create, Fork, Rm, Stop};

/// Linux machines in which mistakes are cheap.
#[derive(Debug, Parser)]
#[command(name = "agentiso", version, about, arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    /// Prints results, and errors, as JSON on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Shows no progress
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Reads this configuration file
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a command in a new machine that is gone when the command ends
    Run(Run),
    /// Make a workspace: a machine that stays, with its disk
    Create(Create),
    /// List workspaces
    Ls,
    /// Show what is known about a workspace
    Info {
        /// The workspace: its name, its id, or the first digits of its short id
        #[arg(value_name = "WS")]
        workspace: String,
    },
    /// Start a stopped workspace
    Start {
        /// The workspace
        #[arg(value_name = "WS")]
        workspace: String,
    },
    /// Stop a workspace; its disk stays
    Stop(Stop),
    /// Remove workspaces with their snapshots; forks of them stay
    Rm(Rm),
    /// Run a command in a workspace
    Exec(Exec),
    /// Take, list, restore and remove snapshots of a workspace
    #[command(subcommand)]
    Snapshot(SnapshotVerb),
    /// Make new workspaces from a workspace, running or not, or from one of its snapshots
    Fork(Fork),
    /// Speak MCP with the client that started this
    Serve(Serve),
    /// Start, stop and look at the daemon that works for all commands
    #[command(subcommand)]
    Daemon(DaemonVerb),
    /// Prepare kernel, image, template and configuration; safe to repeat
    Init(Init),
    /// Show everything agentiso needs, found or not, with reasons and fixes
    Check,
    /// Measure how fast machines start, run commands and carry data here
    Bench(Bench),
    /// Build, import, pull, list and remove images
    #[command(subcommand)]
    Image(ImageVerb),
    /// Shorten chains of disks and fill the pool; commands start it by themselves
    #[command(hide = true)]
    Maintain {
        /// Leaves the terminal
        #[arg(long)]
        detached: bool,
    },
}

/// Flags of `init`.
#[derive(Args, Debug)]
pub struct Init {
    /// Image to prepare [default: the configured one, debian]
    #[arg(long, short, value_name = "NAME")]
    pub image: Option<String>,
}

/// Flags of `bench`.
#[derive(Args, Debug)]
pub struct Bench {
    /// How often each start is measured
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Leaves out what takes minutes: 10,000 commands, a 4 GiB file, twenty machines
    #[arg(long)]
    pub short: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn everything_behind_the_dashes_is_the_command() {
        let cli = Cli::parse_from(["agentiso", "run", "--memory", "256", "--", "ls", "--json", "-t"]);
        let Verb::Run(run) = cli.verb else { panic!("not run") };
        assert_eq!(run.command.words, ["ls", "--json", "-t"]);
        assert_eq!(run.size.memory, Some(256));
        assert!(!cli.json && !run.command.tty);
    }

    #[test]
    fn a_command_in_a_workspace_has_its_flags_before_the_dashes() {
        let cli = Cli::parse_from(["agentiso", "exec", "web", "-e", "A=b", "--", "rm", "-f", "x"]);
        let Verb::Exec(exec) = cli.verb else { panic!("not exec") };
        assert_eq!((exec.workspace.as_str(), exec.command.env.as_slice()), ("web", &["A=b".to_owned()][..]));
        assert_eq!(exec.command.words, ["rm", "-f", "x"]);
        assert!(Cli::try_parse_from(["agentiso", "exec", "web"]).is_err());
    }

    #[test]
    fn flags_that_mean_nothing_together_are_refused() {
        for words in [
            &["fork", "web", "--disk-only"][..],
            &["stop", "web", "--force", "--timeout", "3"],
            &["rm"],
            &["snapshot", "create", "web"],
        ] {
            let line = std::iter::once(&"agentiso").chain(words);
            assert!(Cli::try_parse_from(line).is_err(), "{words:?}");
        }
    }
}
