//! From the command line to the command.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::{Code, Failure};
use agentiso_runtime::network::{is_router, run_router_process};
use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, DaemonVerb, modern};
use crate::avfs;
use crate::commands::{COMMAND_FAILED, Verb};
use crate::daemon::BoundedLog;
use crate::misread::{failure_of, wants_json};
use crate::output::Output;
use crate::ui::Stream;

/// The exit code for failures of agentiso itself.
const FAILED: u8 = 1;
/// The exit code for a command line that cannot be parsed.
const MISREAD: u8 = 2;
/// How long interrupted work may take to clean up after itself.
const CLEAN_UP: Duration = Duration::from_secs(25);

/// Parses the command line, performs the command, and returns the exit code.
pub fn main() -> ExitCode {
    // This program is also what starts inside of sandboxes; then this does not return.
    agentiso_proxy::run_helper_if_requested();
    if let Some(ended) = run_as_router() {
        return ended;
    }
    // A shell that completes a line asks by an environment variable, not by arguments.
    CompleteEnv::with_factory(Cli::command).complete();
    let words = modern(std::env::args_os().collect());
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return misread(&error, &words),
    };
    log_to_stderr(&cli);
    let output = Output { json: cli.json, quiet: cli.quiet };
    let runs_a_command = match &cli.verb {
        Verb::Run(_) | Verb::Exec(_) | Verb::Shell(_) => true,
        Verb::Create(flags) => !flags.words.is_empty(),
        _ => false,
    };
    let failed = if runs_a_command { COMMAND_FAILED } else { FAILED };
    // A server has ended its session by then, and a read of standard input that never returns is all that is left.
    let clean_up = if matches!(cli.verb, Verb::Serve(_)) { Duration::ZERO } else { CLEAN_UP };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // The daemon and the bench use every core; for any other command, starting that many threads is not worth it.
    if !matches!(cli.verb, Verb::Daemon(DaemonVerb::Run(_)) | Verb::Bench(_)) {
        runtime.worker_threads(2);
    }
    let runtime = runtime.enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(dispatch(cli, output));
            // Work that was interrupted may still be cleaning up after itself.
            runtime.shutdown_timeout(clean_up);
            done
        }
        Err(error) => {
            Err(Failure::new(Code::Internal, format!("could not start the async runtime: {error}")))
        }
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.code().exit_status().unwrap_or(failed))
        }
    }
}

/// Reports what is wrong with the command line, or shows the requested help.
fn misread(error: &clap::Error, words: &[OsString]) -> ExitCode {
    if error.use_stderr() && wants_json(words) {
        let failure = failure_of(error);
        if !avfs::refused_exec(words, &failure) {
            Output { json: true, quiet: false }.failure(&failure);
        }
        return ExitCode::from(MISREAD);
    }
    error.exit()
}

async fn dispatch(cli: Cli, output: Output) -> Result<u8, Failure> {
    cli.verb.perform(cli.config.as_deref(), output).await
}

/// `AGENTISO_LOG` chooses what is logged (`info`, `agentiso_vmm=debug`). By default that is nothing but errors, and
/// what the daemon warns of: it has a log for that, where a command says all it has to say anyway.
/// The router of the workspaces' network is this program too. The daemon starts it, with words that are no command.
fn run_as_router() -> Option<ExitCode> {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(OsString::into_string).collect::<Result<_, _>>().ok()?;
    if !is_router(&words) {
        return None;
    }
    let filter = EnvFilter::new("warn");
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
    Some(match run_router_process(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tracing::error!(%failure, "the router could not run");
            FAILED.into()
        }
    })
}

fn log_to_stderr(cli: &Cli) {
    let run = match &cli.verb {
        Verb::Daemon(DaemonVerb::Run(run)) => Some(run),
        _ => None,
    };
    let level = if run.is_some() { "warn" } else { "error" };
    let said = std::env::var("AGENTISO_LOG").ok().filter(|said| !said.is_empty());
    let filter = said.and_then(|said| EnvFilter::try_new(with_quiet_rmcp(said)).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new(with_quiet_rmcp(format!("{level},imago=off"))));
    let ansi = Stream::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(ansi);
    let home = run.filter(|run| run.detached).and_then(|_| Paths::of_process(cli.config.as_deref()).ok());
    match home.and_then(|paths| BoundedLog::stderr(&paths.home).ok()) {
        Some(bounded) => log.with_writer(Mutex::new(bounded)).init(),
        None => log.with_writer(std::io::stderr).init(),
    }
}

/// rmcp warns of every request that is answered with an error and repeats it, secrets included: that is logged only if
/// it is asked for by name.
fn with_quiet_rmcp(rules: String) -> String {
    if rules.contains("rmcp") { rules } else { format!("{rules},rmcp=error") }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn requests_that_rmcp_warns_of_are_not_logged() {
        let mut file = tempfile::tempfile().unwrap();
        let filter = EnvFilter::new(with_quiet_rmcp("warn,imago=off".to_owned()));
        let writer = Mutex::new(file.try_clone().unwrap());
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).finish();
        tracing::subscriber::with_default(log, || {
            tracing::warn!(target: "rmcp::service", uri = "geheim", "response error");
            tracing::error!(target: "rmcp::service", "a failure of its own");
            tracing::warn!("a warning of ours");
        });
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert!(!text.contains("geheim"), "{text}");
        assert!(text.contains("a failure of its own") && text.contains("a warning of ours"), "{text}");
        assert_eq!(with_quiet_rmcp("rmcp=debug".to_owned()), "rmcp=debug");
    }
}
