//! What can be typed.

mod command;
mod daemon;
mod files;
mod image;
mod jobs;
mod kernel;
mod look;
mod shells;
mod size;
mod snapshot;
mod values;
mod workspace;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use self::command::{Command, Conditions, Exec, Run, Shell};
pub use self::daemon::{DaemonRun, DaemonVerb, Serve, Tools};
pub use self::files::{Cp, Edit, Read, Write};
pub use self::image::{ImageVerb, NewImage};
pub use self::jobs::{JobVerb, Jobs, StartJob};
pub use self::kernel::{BuildKernel, KernelVerb, WhichKernel};
pub use self::look::{Logs, Timeline};
pub use self::shells::{Completions, Man};
pub use self::size::Size;
pub use self::snapshot::{Compare, Restore, SnapshotVerb, TakeSnapshot};
pub use self::workspace::{Create, Env, Fork, Forward, Grow, Label, Ls, One, Rename, Rm, State, Stop};

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
    Ls(Ls),
    /// Show what is known about a workspace
    #[command(after_help = "Examples:\n  agentiso info web\n  agentiso info web --json | jq .pid")]
    Info(One),
    /// Start a stopped workspace
    #[command(after_help = "Example:\n  agentiso start web")]
    Start(One),
    /// Stop a workspace; its disk stays
    Stop(Stop),
    /// Write a workspace's memory to disk and end its machine; resume brings it back to the instruction
    #[command(after_help = "Example:\n  agentiso suspend web")]
    Suspend(One),
    /// Bring a suspended workspace back, processes and all
    #[command(after_help = "Example:\n  agentiso resume web")]
    Resume(One),
    /// Remove workspaces with their snapshots; forks of them stay
    Rm(Rm),
    /// Run a command in a workspace
    Exec(Exec),
    /// Open a shell in a workspace
    Shell(Shell),
    /// Start, list, watch and end commands that are left running in a workspace
    Jobs(Jobs),
    /// Copy files and directories into a workspace or out of it
    Cp(Cp),
    /// Print a file of a workspace
    Read(Read),
    /// Write a file of a workspace from standard input
    Write(Write),
    /// Replace text in a file of a workspace
    Edit(Edit),
    /// Take, list, compare, restore and remove snapshots of a workspace
    #[command(subcommand)]
    Snapshot(SnapshotVerb),
    /// Make new workspaces from a workspace, running or not, or from one of its snapshots
    Fork(Fork),
    /// Give a workspace another name
    Rename(Rename),
    /// Give a running workspace a larger disk
    Grow(Grow),
    /// Set, remove and show labels of a workspace
    Label(Label),
    /// Set and remove variables that every command in a workspace gets
    Env(Env),
    /// Reach a port of a workspace on 127.0.0.1
    Forward(Forward),
    /// Show what a workspace's machine printed on its console
    Logs(Logs),
    /// Show what was done to a workspace, or to all
    Timeline(Timeline),
    /// Show how the daemon is and what is used
    #[command(after_help = "Example:\n  agentiso status")]
    Status,
    /// Speak MCP with the client that started this
    Serve(Serve),
    /// Start, stop and look at the daemon that works for all commands
    #[command(subcommand)]
    Daemon(DaemonVerb),
    /// Prepare kernel, image, template and configuration; safe to repeat
    Init(Init),
    /// Show everything agentiso needs, found or not, with reasons and fixes
    #[command(after_help = "The exit code is 1 if machines cannot run.\n\nExample:\n  agentiso check")]
    Check,
    /// Measure how fast machines start, run commands and carry data here
    Bench(Bench),
    /// Build, import, pull, list and remove images
    #[command(subcommand)]
    Image(ImageVerb),
    /// Print what makes a shell complete agentiso's words, names of workspaces too
    Completions(Completions),
    /// Write manual pages
    Man(Man),
}

/// Flags of `init`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  agentiso init\n  agentiso init --image tools\n  \
                        agentiso init --zfs-pool tank\n  \
                        agentiso init --pool-path /var/lib/agentiso-pool.img --pool-size 50")]
pub struct Init {
    /// Image to prepare [default: the configured one, debian]
    #[arg(long, short, value_name = "NAME")]
    pub image: Option<String>,
    /// ZFS pool to keep disks in, in a dataset of their own called agentiso
    #[arg(long, value_name = "NAME")]
    pub zfs_pool: Option<String>,
    /// Makes that pool [default name: agentiso] of an empty device, or of a file that is made
    #[arg(long, value_name = "FILE|DEVICE")]
    pub pool_path: Option<PathBuf>,
    /// Size of that file in GiB; only what is written takes space [default: most of what is free, 100 at most]
    #[arg(long, value_name = "GIB", requires = "pool_path", value_parser = clap::value_parser!(u32).range(1..))]
    pub pool_size: Option<u32>,
}

/// Flags of `bench`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  agentiso bench --short --rounds 3")]
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
        assert_eq!(
            (exec.workspace.as_str(), exec.command.conditions.env.as_slice()),
            ("web", &["A=b".to_owned()][..])
        );
        assert_eq!(exec.command.words, ["rm", "-f", "x"]);
        assert!(Cli::try_parse_from(["agentiso", "exec", "web"]).is_err());
    }

    #[test]
    fn every_verb_shows_an_example() {
        fn check(command: &clap::Command, path: &str) {
            let verbs: Vec<_> = command.get_subcommands().filter(|verb| verb.get_name() != "help").collect();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let shown = help.contains("Example") && help.contains(path);
            assert!(shown || !verbs.is_empty(), "{path} has no example");
            for verb in verbs {
                // The verbs of jobs come behind the workspace; their examples are those of jobs.
                if path != "agentiso jobs" {
                    check(verb, &format!("{path} {}", verb.get_name()));
                }
            }
        }
        check(&Cli::command(), "agentiso");
    }

    #[test]
    fn the_verbs_of_jobs_come_behind_the_workspace() {
        let cli = Cli::parse_from(["agentiso", "jobs", "web", "start", "--", "make", "-j4"]);
        let Verb::Jobs(jobs) = cli.verb else { panic!("not jobs") };
        let Some(JobVerb::Start(start)) = jobs.verb else { panic!("not start") };
        assert_eq!(
            (jobs.workspace.as_str(), start.words),
            ("web", vec!["make".to_owned(), "-j4".to_owned()])
        );
    }

    #[test]
    fn flags_that_mean_nothing_together_are_refused() {
        for words in [
            &["fork", "web", "--disk-only"][..],
            &["stop", "web", "--force", "--timeout", "3"],
            &["rm"],
            &["snapshot", "create", "web"],
            &["forward", "web"],
            &["forward", "web", "80", "--ls"],
            &["logs", "web", "--follow", "--json"],
            &["ls", "--label", "blue"],
        ] {
            let line = std::iter::once(&"agentiso").chain(words);
            assert!(Cli::try_parse_from(line).is_err(), "{words:?}");
        }
    }
}
