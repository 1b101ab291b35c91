//! `avfs proxy`.

mod exec;
mod exec_file;
mod live;
mod report;

use std::ffi::OsString;

use agentiso_core::Failure;
use agentiso_proxy::{Invocation, Run};
use clap::Subcommand;

use super::context::Context;

pub use exec::{Exec, ExecFlags};
pub use exec_file::{ExecFile, FileRan, exec_file};
pub use live::OutputEvent;
pub use report::{Shower, show};

/// Commands of `proxy`.
#[derive(Debug, Subcommand)]
pub enum ProxyVerb {
    /// Run one command, and answer with one envelope whatever becomes of it
    Exec(Exec),
}

/// Performs a command of `proxy`.
pub fn proxy(context: &Context, verb: ProxyVerb) -> Result<u8, Failure> {
    match verb {
        ProxyVerb::Exec(flags) => exec::exec(context, flags),
    }
}

/// Whether a command line that cannot be parsed was meant to run a command.
pub fn is_exec(words: &[OsString]) -> bool {
    let verbs: Vec<&OsString> =
        words.iter().skip(1).filter(|word| !word.as_encoded_bytes().starts_with(b"-")).collect();
    verbs.windows(2).any(|pair| pair[0] == "proxy" && pair[1] == "exec")
}

/// Prints the envelope of a command line that cannot be parsed.
pub fn refuse(failure: &Failure) {
    let envelope = agentiso_proxy::refused(&Run::new(Invocation::Argv(Vec::new())), failure);
    // If this cannot be written, there is nowhere left to report it.
    let _ = report::json(&envelope);
}
