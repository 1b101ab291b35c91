//! From what was typed to the verb that does it.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::{Code, Failure};
use agentiso_runtime::{ImageOrigin, Installation};
use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, DaemonVerb, ImageVerb, KernelVerb, SnapshotVerb, Verb, WorkspaceVerb, modern};
use crate::commands::{
    COMMAND_FAILED, bench, check, completions, cp, daemon, edit, env, exec, fork, forward, grant, grow,
    image, init, jobs, kernel, label, logs, man, read, recover, rename, run, serve, sessions, shell,
    snapshot, stats, status, timeline, workspace, write,
};
use crate::daemon::BoundedLog;
use crate::misread::{failure_of, wants_json};
use crate::output::Output;
use crate::ui::Stream;

/// The exit code for failures of agentiso itself.
const FAILED: u8 = 1;
/// The exit code for a command line that makes no sense.
const MISREAD: u8 = 2;
/// How long interrupted work may take to clean up after itself.
const CLEAN_UP: Duration = Duration::from_secs(25);

/// Parses the command line, does what it says, and returns the exit code.
pub fn main() -> ExitCode {
    // What a shell asks for when it completes is not in the arguments.
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

/// Says what is wrong with the command line, or shows the help that was asked for.
fn misread(error: &clap::Error, words: &[OsString]) -> ExitCode {
    if error.use_stderr() && wants_json(words) {
        let output = Output { json: true, quiet: false };
        output.failure(&failure_of(error));
        return ExitCode::from(MISREAD);
    }
    error.exit()
}

async fn dispatch(cli: Cli, output: Output) -> Result<u8, Failure> {
    match cli.verb {
        // These work without an installation.
        Verb::Completions(flags) => return completions::completions(&flags, output),
        Verb::Man(flags) => return man::man(&flags, output),
        Verb::Check => return check::check(Paths::of_process(cli.config.as_deref())?, output).await,
        _ => {}
    }
    let here = Installation::open(Paths::of_process(cli.config.as_deref())?)?;
    carry_out(&here, cli.verb, output).await
}

async fn carry_out(here: &Installation, verb: Verb, output: Output) -> Result<u8, Failure> {
    match verb {
        Verb::Run(flags) => run::run(here, flags, output).await,
        Verb::Create(flags) => workspace::create(here, flags, output).await,
        Verb::Ls(flags) => workspace::ls(here, flags, output).await,
        Verb::Info(one) => workspace::info(here, one.workspace, output).await,
        Verb::Start(flags) => workspace::start(here, flags, output).await,
        Verb::Stop(flags) => workspace::stop(here, flags, output).await,
        Verb::Suspend(flags) => workspace::suspend(here, flags, output).await,
        Verb::Resume(flags) => workspace::resume(here, flags, output).await,
        Verb::Prune(flags) => workspace::prune(here, flags, output).await,
        Verb::Update(flags) => workspace::update(here, flags, output).await,
        Verb::Rm(flags) => workspace::rm(here, flags, output).await,
        Verb::Exec(flags) => exec::exec(here, flags, output).await,
        Verb::Shell(flags) => shell::shell(here, flags, output).await,
        Verb::Jobs(verb) => jobs::jobs(here, verb, output).await,
        Verb::Cp(flags) => cp::cp(here, flags, output).await,
        Verb::Read(flags) => read::read(here, flags, output).await,
        Verb::Write(flags) => write::write(here, flags, output).await,
        Verb::Edit(flags) => edit::edit(here, flags, output).await,
        Verb::Snapshot(verb) => dispatch_snapshot(here, verb, output).await,
        Verb::Fork(flags) => fork::fork(here, flags, output).await,
        Verb::Rename(flags) => rename::rename(here, flags, output).await,
        Verb::Grant(flags) => grant::grant(here, flags, output).await,
        Verb::Sessions => sessions::sessions(here, output).await,
        Verb::Grow(flags) => grow::grow(here, flags, output).await,
        Verb::Label(flags) => label::label(here, flags, output).await,
        Verb::Env(flags) => env::env(here, flags, output).await,
        Verb::Forward(verb) => forward::forward(here, verb, output).await,
        Verb::Logs(flags) => logs::logs(here, flags, output).await,
        Verb::Stats(flags) => stats::stats(here, flags, output).await,
        Verb::Timeline(flags) => timeline::timeline(here, flags, output).await,
        Verb::Status => status::status(here, output).await,
        Verb::Serve(flags) => serve::serve(here, flags).await,
        Verb::Daemon(verb) => daemon::daemon(here, verb, output).await,
        Verb::Init(flags) => init::init(here, flags, output).await.map(|()| 0),
        Verb::Recover(flags) => recover::recover(here, flags, output).await,
        Verb::Bench(flags) => bench::bench(here, flags, output).await.map(|()| 0),
        Verb::Workspace(verb) => dispatch_workspace(here, verb, output).await,
        Verb::Image(verb) => dispatch_image(here, verb, output).await.map(|()| 0),
        Verb::Check | Verb::Completions(_) | Verb::Man(_) => Ok(0),
    }
}

async fn dispatch_snapshot(here: &Installation, verb: SnapshotVerb, output: Output) -> Result<u8, Failure> {
    match verb {
        SnapshotVerb::Create(flags) => snapshot::create(here, flags, output).await,
        SnapshotVerb::Ls { workspace, only } => snapshot::ls(here, workspace, only, output).await,
        SnapshotVerb::Restore(flags) => snapshot::restore(here, flags, output).await,
        SnapshotVerb::Diff(flags) => snapshot::diff(here, flags, output).await,
        SnapshotVerb::Rm { workspace, name } => snapshot::rm(here, workspace, name, output).await,
    }
}

async fn dispatch_workspace(here: &Installation, verb: WorkspaceVerb, output: Output) -> Result<u8, Failure> {
    match verb {
        WorkspaceVerb::Export { workspace, file } => workspace::export(here, workspace, &file, output).await,
        WorkspaceVerb::Import { file, name } => workspace::import(here, &file, name, output).await,
    }
}

async fn dispatch_image(here: &Installation, verb: ImageVerb, output: Output) -> Result<(), Failure> {
    let make = |origin, new| image::make(here, origin, new, output);
    match verb {
        ImageVerb::Build { recipe, new } => make(ImageOrigin::Recipe(recipe), new).await,
        ImageVerb::Import { source, new } => make(ImageOrigin::Path(source), new).await,
        ImageVerb::Pull { reference, new } => make(ImageOrigin::Reference(reference), new).await,
        ImageVerb::Commit { workspace, name, replace } => {
            image::commit(here, workspace, name, replace, output).await
        }
        ImageVerb::Export { name, file, format } => image::export(here, &name, &file, format, output).await,
        ImageVerb::Ls { only } => image::ls(here, only, output),
        ImageVerb::Info { name } => image::info(here, &name, output),
        ImageVerb::Kernel(verb) => dispatch_kernel(here, verb, output).await,
        ImageVerb::Rm { names } => image::rm(here, &names, output),
    }
}

async fn dispatch_kernel(here: &Installation, verb: KernelVerb, output: Output) -> Result<(), Failure> {
    match verb {
        KernelVerb::Build(flags) => kernel::build(here, flags, output).await,
        KernelVerb::Ls => kernel::ls(here, output),
        KernelVerb::Info => kernel::info(here, output),
        KernelVerb::Use { kernel } => kernel::choose(here, kernel, output).await,
    }
}

/// `AGENTISO_LOG` chooses what is logged (`info`, `agentiso_vmm=debug`). By default that is nothing but errors, and
/// what the daemon warns of: it has a log for that, where a command says all it has to say anyway.
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
