//! From the command line to the command.

use std::ffi::OsString;
use std::process::ExitCode;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use super::answer::Shown;
use super::cli::Cli;
use super::context::Context;
use super::policy;
use super::proxy::{self, ProxyVerb};
use crate::misread::{failure_of, wants_json};
use crate::output::Output;

/// The exit code for failures.
const FAILED: u8 = 1;
/// The exit code for a command line that cannot be parsed.
const MISREAD: u8 = 2;

/// Parses the command line, performs the command, and returns the exit code.
pub fn main() -> ExitCode {
    // This program is also what starts inside of sandboxes; then this does not return.
    agentiso_proxy::run_helper_if_requested();
    CompleteEnv::with_factory(Cli::command).complete();
    let words: Vec<OsString> = std::env::args_os().collect();
    ExitCode::from(perform(&words))
}

/// Performs one command line.
pub fn perform(words: &[OsString]) -> u8 {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return misread(&error, words),
    };
    let shown = Shown { json: cli.json, quiet: cli.quiet };
    let paths = Paths::of_process(cli.config.as_deref()).map_err(Failure::from);
    let done = paths.and_then(|paths| cli.verb.perform(&Context::new(paths, cli.vault, shown)));
    done.unwrap_or_else(|failure| {
        shown.failure(&failure);
        failure.code().exit_status().unwrap_or(FAILED)
    })
}

/// Performs `proxy` for another program.
pub fn proxy_in(
    paths: &Paths,
    vault: Option<String>,
    verb: ProxyVerb,
    output: Output,
) -> Result<u8, Failure> {
    let shown = Shown { json: output.json, quiet: output.quiet };
    proxy::proxy(&Context::new(paths.clone(), vault, shown), verb)
}

/// Performs `policy explain` for another program.
pub fn explain_in(
    paths: &Paths,
    vault: String,
    flags: policy::Explain,
    output: Output,
) -> Result<u8, Failure> {
    let shown = Shown { json: output.json, quiet: output.quiet };
    let context = Context::new(paths.clone(), Some(vault), shown);
    policy::policy(&context, policy::PolicyVerb::Explain(flags))
}

/// Reports what is wrong with the command line, or shows the requested help.
fn misread(error: &clap::Error, words: &[OsString]) -> u8 {
    if !error.use_stderr() || !wants_json(words) {
        // A closed pipe is no failure.
        let _ = error.print();
        return if error.use_stderr() { MISREAD } else { 0 };
    }
    let failure = failure_of(error);
    if !refused_exec(words, &failure) {
        Shown { json: true, quiet: false }.failure(&failure);
    }
    MISREAD
}

/// Prints an envelope if a command line that cannot be parsed was meant to run a command.
pub fn refused_exec(words: &[OsString], failure: &Failure) -> bool {
    let is_exec = proxy::is_exec(words);
    if is_exec {
        proxy::refuse(failure);
    }
    is_exec
}
