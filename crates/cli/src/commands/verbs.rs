//! The list of commands as a type.

use std::path::Path;

use agentiso_config::modes;
use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_runtime::Installation;
use clap::Args;

/// The flags of a command that has none.
#[derive(Args, Debug)]
pub struct NoFlags {}

/// Declares the commands: help text and other attributes, flags, and the function that performs the command. The
/// function gets its flags and the output, and returns the exit code. What it gets first depends on its kind:
///
/// - `client`: the paths of the installation. Such a command sends actions to the daemon, which may be started for it.
/// - `local`: the installation. Such a command prepares what the daemon needs, or measures the host.
/// - `alone`: nothing. Such a command works without an installation.
macro_rules! verbs {
    ($($(#[$attribute:meta])* $verb:ident($flags:ty) => $kind:ident($perform:path),)+) => {
        /// A command.
        #[derive(Debug, clap::Subcommand)]
        pub enum Verb {
            $($(#[$attribute])* $verb($flags),)+
        }

        impl Verb {
            /// Performs the command and returns its exit code.
            pub async fn perform(
                self,
                config: Option<&std::path::Path>,
                output: crate::output::Output,
            ) -> Result<u8, agentiso_core::Failure> {
                match self {
                    $(Self::$verb(flags) => $perform(&verbs::$kind(config)?, flags, output).await,)+
                }
            }
        }
    };
}
pub(super) use verbs;

/// What a `client` command gets.
pub fn client(config: Option<&Path>) -> Result<Paths, Failure> {
    modes::restrict();
    Ok(Paths::of_process(config)?)
}

/// What a `local` command gets.
pub fn local(config: Option<&Path>) -> Result<Installation, Failure> {
    Installation::open(Paths::of_process(config)?)
}

/// What an `alone` command gets.
pub fn alone(_: Option<&Path>) -> Result<(), Failure> {
    Ok(())
}
