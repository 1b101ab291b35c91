//! `agentiso shell`: a shell in a workspace, with a terminal.

use agentiso_config::paths::Paths;
use agentiso_core::wire::{ExecSpec, Word};
use agentiso_core::{Code, Failure};

use super::Daemon;
use super::attend::{Outcome, Signals, attend_exec, exit_code, signal_code};
use crate::args;
use crate::output::Output;
use crate::terminal;

/// Opens a shell and returns its exit code.
pub async fn shell(here: &Paths, flags: args::Shell, output: Output) -> Result<u8, Failure> {
    if output.json {
        return Err(Failure::new(Code::InvalidArgument, "agentiso shell does not support --json")
            .with_remedy("agentiso exec --json runs a command"));
    }
    // Programs draw for our terminal.
    let term = std::env::var("TERM").ok().map(|term| ("TERM".to_owned(), Word::Text(term)));
    let spec = ExecSpec {
        env: term.into_iter().collect(),
        workdir: flags.workdir,
        user: flags.user,
        stdin: true,
        report_input: false,
        tty: Some(terminal::size()),
        ..ExecSpec::default()
    };
    let mut signals = Signals::new()?;
    let daemon = Daemon::reach(here, output).await?;
    let attended = attend_exec(daemon.client(), &flags.workspace, &spec, &mut signals, output).await?;
    match attended.outcome {
        Outcome::Interrupted(number) => Ok(signal_code(number)),
        Outcome::Refused(code, failure) => {
            output.failure(&failure);
            Ok(code)
        }
        Outcome::Ended { exit, .. } => Ok(exit_code(&exit)),
    }
}
