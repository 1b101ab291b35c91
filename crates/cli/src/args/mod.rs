//! Flags and arguments of the commands. Newer commands declare theirs in their own file.

mod command;
mod daemon;
mod files;
mod image;
mod jobs;
mod kernel;
mod look;
mod network;
mod older;
mod quantity;
mod shells;
mod size;
mod snapshot;
mod values;
mod workspace;

use std::path::PathBuf;

use clap::{Args, Parser};

use crate::commands::Verb;

pub use self::command::{Command, Conditions, Exec, Run, Shell};
pub use self::daemon::{DaemonRun, DaemonVerb, Serve};
pub use self::files::{Cp, Edit, Read, Write};
pub use self::image::{ExportFormat, ImageVerb, NewImage};
pub use self::jobs::{JobVerb, OneJob, StartJob};
pub use self::kernel::{BuildKernel, KernelVerb, WhichKernel};
pub use self::look::{Logs, Stats, Timeline};
pub use self::network::{Inbox, InboxVerb, NetVerb, NetworkFlags};
pub use self::older::modern;
pub use self::quantity::PortPair;
pub use self::shells::{Completions, Man};
pub use self::size::Size;
pub use self::snapshot::{Compare, Restore, SnapshotVerb, TakeSnapshot};
pub use self::values::{Names, workspaces};
pub use self::workspace::{
    Changes, Create, Env, Fork, ForwardVerb, Grant, Grow, Label, Ls, One, Prune, Resume, Rm, Selection,
    Start, State, Stop, Suspend, Switch, Update, WorkspaceVerb,
};

/// Linux machines for AI agents, in which mistakes are cheap.
#[derive(Debug, Parser)]
#[command(
    name = "agentiso",
    version,
    about = "Linux machines for AI agents, in which mistakes are cheap",
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    /// Print results and errors as JSON on standard output
    #[arg(long, global = true, overrides_with = "json")]
    pub json: bool,
    /// Do not show progress
    #[arg(long, short, global = true, overrides_with = "quiet")]
    pub quiet: bool,
    /// Configuration file to use
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags of `recover`.
#[derive(Args, Debug)]
#[command(
    after_help = "If state.db is missing or belongs to another installation, unknown disks are moved to lost/ in \
                        the data directory. Without --apply this command only lists what can be recovered. The \
                        exit code is 1 if a workspace could not be recovered.\n\n\
                        Examples:\n  agentiso recover\n  agentiso recover --apply"
)]
pub struct Recover {
    /// Recover everything that is listed
    #[arg(long)]
    pub apply: bool,
}

/// Flags of `init`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  agentiso init\n  agentiso init --image debian-slim\n  \
                        agentiso init --zfs-pool tank\n  \
                        agentiso init --pool-path /var/lib/agentiso-pool.img --pool-size 50")]
pub struct Init {
    /// Image to prepare; in a new installation it becomes the default [default: the configured one, debian]
    #[arg(long, short, value_name = "NAME")]
    pub image: Option<String>,
    /// ZFS pool for disks, which are stored in its dataset agentiso
    #[arg(long, value_name = "NAME")]
    pub zfs_pool: Option<String>,
    /// Create that pool [default name: agentiso] on an empty device, or in a new file
    #[arg(long, value_name = "FILE|DEVICE")]
    pub pool_path: Option<PathBuf>,
    /// Size of that file in GiB; it is sparse [default: most of the free space, at most 100]
    #[arg(long, value_name = "GIB", requires = "pool_path", value_parser = clap::value_parser!(u32).range(1..))]
    pub pool_size: Option<u32>,
}

/// Flags of `bench`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  agentiso bench --short --rounds 3")]
pub struct Bench {
    /// Number of measurements of each start
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Skip measurements that take minutes: 10,000 commands, a 4 GiB file, twenty machines
    #[arg(long)]
    pub short: bool,
    /// Measure the network alone
    #[arg(long)]
    pub network: bool,
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
                check(verb, &format!("{path} {}", verb.get_name()));
            }
        }
        check(&Cli::command(), "agentiso");
    }

    fn parsed(line: &str) -> Verb {
        Cli::parse_from(modern(line.split(' ').map(Into::into).collect())).verb
    }

    #[test]
    fn the_workspace_comes_behind_the_verb_and_older_lines_still_work() {
        for line in ["agentiso jobs start web -- make -j4", "agentiso jobs start web make -j4"]
            .into_iter()
            .chain(["agentiso jobs web start -- make -j4"])
        {
            let Verb::Jobs(JobVerb::Start(start)) = parsed(line) else { panic!("not a start: {line}") };
            assert_eq!(start.workspace, "web");
            assert_eq!(start.words, ["make", "-j4"]);
        }
        let Verb::Forward(ForwardVerb::Add { workspace, ports, to: None }) =
            parsed("agentiso forward web 80 8080")
        else {
            panic!("not a forward")
        };
        assert_eq!((workspace.as_str(), ports), ("web", PortPair { host: Some(8080), guest: 80 }));
    }

    #[test]
    fn a_command_needs_no_dashes_before_it_and_keeps_its_own() {
        for (line, words) in [
            ("agentiso exec web ls -la --json", &["ls", "-la", "--json"][..]),
            ("agentiso exec web -n ls -n", &["ls", "-n"]),
            ("agentiso exec -n web -- ls -- x", &["ls", "--", "x"]),
            ("agentiso exec web ls -- x", &["ls", "--", "x"]),
        ] {
            let Verb::Exec(exec) = parsed(line) else { panic!("not exec: {line}") };
            assert_eq!(exec.command.words, words, "{line}");
            assert_eq!(exec.workspace, "web");
        }
        // A flag that does not exist is a mistake, not a command.
        assert!(Cli::try_parse_from(["agentiso", "exec", "web", "--usr", "x", "ls"]).is_err());
    }

    #[test]
    fn verbs_have_the_names_people_try() {
        assert!(matches!(parsed("agentiso ps"), Verb::Ls(_)));
        assert!(matches!(parsed("agentiso list"), Verb::Ls(_)));
        let Verb::Ls(ls) = parsed("agentiso ls -q") else { panic!("not ls") };
        assert!(ls.only.names);
        assert!(matches!(parsed("agentiso delete web"), Verb::Rm(_)));
    }

    #[test]
    fn flags_that_mean_nothing_together_are_refused() {
        for words in [
            &["fork", "web", "--disk-only"][..],
            &["stop", "web", "--force", "--timeout", "3"],
            &["rm"],
            &["rm", "web", "--label", "a=b"],
            &["stop"],
            &["stop", "--all", "web"],
            &["update", "web"],
            &["exec", "--tty", "-n", "web", "sh"],
            &["cp", "one"],
            &["snapshot", "create", "web"],
            &["forward", "add", "web"],
            &["forward", "ls", "web", "80"],
            &["logs", "web", "--follow", "--json"],
            &["ls", "--label", "blue"],
        ] {
            let line = std::iter::once(&"agentiso").chain(words);
            assert!(Cli::try_parse_from(line).is_err(), "{words:?}");
        }
    }
}
