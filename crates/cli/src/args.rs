//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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
    /// Prepare kernel, image, template and configuration; safe to repeat
    Init(Init),
    /// Show everything agentiso needs, found or not, with reasons and fixes
    Check,
    /// Measure how fast machines start, run commands and carry data here
    Bench(Bench),
    /// Build, import, pull, list and remove images
    #[command(subcommand)]
    Image(ImageVerb),
}

/// Flags of `run`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is the command's own, or 128 plus the signal that ended it.\n\
                        125: agentiso failed   126: the command cannot be executed\n\
                        127: the command was not found   124: its time was up")]
pub struct Run {
    /// Image to start from [default: the configured one, debian]
    #[arg(long, short, value_name = "NAME")]
    pub image: Option<String>,
    /// Virtual processors
    #[arg(long, value_name = "N")]
    pub vcpus: Option<u32>,
    /// Memory in MiB
    #[arg(long, short, value_name = "MIB")]
    pub memory: Option<u32>,
    /// Size of the root file system in GiB
    #[arg(long, short, value_name = "GIB")]
    pub disk: Option<u32>,
    /// Sets an environment variable; NAME alone passes on the value it has here
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Directory in the machine to run the command in
    #[arg(long, short, value_name = "DIR")]
    pub workdir: Option<String>,
    /// User to run the command as: a name in the machine, UID, or UID:GID
    #[arg(long, short, value_name = "USER")]
    pub user: Option<String>,
    /// Ends the command after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Gives the command a terminal
    #[arg(long, short)]
    pub tty: bool,
    /// Boots a kernel instead of cloning a template
    #[arg(long)]
    pub cold: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
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

/// Verbs of `image`.
#[derive(Debug, Subcommand)]
pub enum ImageVerb {
    /// Build an image from Debian packages
    Build {
        /// What to build
        #[arg(value_name = "RECIPE")]
        recipe: String,
        /// How the image is called.
        #[command(flatten)]
        new: NewImage,
    },
    /// Import a tarball, a directory, or an OCI or docker archive
    Import {
        /// The tarball, directory or archive
        source: PathBuf,
        /// How the image is called.
        #[command(flatten)]
        new: NewImage,
    },
    /// Pull an OCI image from a registry
    Pull {
        /// Reference: name, name:tag, registry/name:tag or name@digest
        reference: String,
        /// How the image is called.
        #[command(flatten)]
        new: NewImage,
    },
    /// List images
    Ls,
    /// Show what is known about an image
    Info {
        /// The image
        name: String,
    },
    /// Remove images
    Rm {
        /// The images
        #[arg(required = true)]
        names: Vec<String>,
    },
}

/// Flags of everything that makes an image.
#[derive(Args, Debug)]
pub struct NewImage {
    /// Name of the image [default: made from where it comes from]
    #[arg(long, short)]
    pub name: Option<String>,
    /// Replaces an image of that name
    #[arg(long)]
    pub replace: bool,
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
        assert_eq!(run.command, ["ls", "--json", "-t"]);
        assert_eq!(run.memory, Some(256));
        assert!(!cli.json && !run.tty);
    }
}
