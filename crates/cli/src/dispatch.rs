//! From what was typed to the verb that does it.

use std::process::ExitCode;
use std::time::Duration;

use agentiso_core::{Code, Failure};
use agentiso_runtime::paths::Paths;
use agentiso_runtime::{ImageOrigin, Installation};
use clap::Parser;

use crate::args::{Cli, ImageVerb, Verb};
use crate::commands::{bench, check, image, init, run};
use crate::output::Output;
use crate::ui::{Stream, report};

/// The exit code for failures of agentiso itself.
const FAILED: u8 = 1;
/// How long interrupted work may take to clean up after itself.
const CLEAN_UP: Duration = Duration::from_secs(25);

/// Parses the command line, does what it says, and returns the exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    let output = Output { json: cli.json, quiet: cli.quiet };
    let failed = if matches!(cli.verb, Verb::Run(_)) { run::FAILED } else { FAILED };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(dispatch(cli, output));
            // Work that was interrupted may still be cleaning up after itself.
            runtime.shutdown_timeout(CLEAN_UP);
            done
        }
        Err(error) => {
            Err(Failure::new(Code::Internal, format!("could not start the async runtime: {error}")))
        }
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // If not even this can be written there is nobody to tell.
            let _ = report(&failure, output.json, &mut Stream::stdout(), &mut Stream::stderr());
            ExitCode::from(failed)
        }
    }
}

async fn dispatch(cli: Cli, output: Output) -> Result<u8, Failure> {
    let paths = Paths::of_process(cli.config.as_deref())?;
    if let Verb::Check = cli.verb {
        return check::check(paths, output).await;
    }
    let installation = Installation::open(paths)?;
    let make = |origin, new| image::make(&installation, origin, new, output);
    match cli.verb {
        Verb::Run(flags) => run::run(&installation, flags, output).await,
        Verb::Init(flags) => init::init(&installation, flags, output).await.map(|()| 0),
        Verb::Bench(flags) => bench::bench(&installation, flags, output).await.map(|()| 0),
        Verb::Check => Ok(0),
        Verb::Image(verb) => match verb {
            ImageVerb::Build { recipe, new } => make(ImageOrigin::Recipe(recipe), new).await,
            ImageVerb::Import { source, new } => make(ImageOrigin::Path(source), new).await,
            ImageVerb::Pull { reference, new } => make(ImageOrigin::Reference(reference), new).await,
            ImageVerb::Ls => image::ls(&installation, output),
            ImageVerb::Info { name } => image::info(&installation, &name, output),
            ImageVerb::Rm { names } => image::rm(&installation, &names, output),
        }
        .map(|()| 0),
    }
}

/// `AGENTISO_LOG` chooses what is logged (`info`, `agentiso_vmm=debug`); nothing but errors by default.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("AGENTISO_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error,imago=off"));
    let ansi = Stream::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
}
