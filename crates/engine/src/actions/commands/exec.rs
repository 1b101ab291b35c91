//! Commands that are waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use agentiso_core::action::forms::{MAX_EXEC_OUTPUT, MAX_EXEC_SECS};
use agentiso_core::action::{EnvSet, Exec, Executed, SetEnv, State};
use agentiso_core::ports::link::{Exit, ExitStatus, Process, check_name};
use agentiso_core::{Capture, Code, Failure};
use tokio::time::Instant;

use super::handover::{self, Ending, Handover};
use super::hints;
use crate::act::Context;
use crate::actions::files::absolute;
use crate::command::{Command, Program, Shell, user};
use crate::network::is_about_network;
use crate::spill::{Output, Shown};
use crate::{Access, Perform};

const TIMEOUT: u64 = 120;
const OUTPUT: u64 = 1 << 20;
/// How much longer than its time limit a command is waited for, before its machine is taken to be stuck.
const GRACE: Duration = Duration::from_secs(20);

impl Perform for Exec {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<Executed, Failure> {
        let seconds = bounded("timeout_secs", self.timeout_secs, TIMEOUT, 1, MAX_EXEC_SECS)?;
        let most = bounded("max_output_bytes", self.max_output_bytes, OUTPUT, 0, MAX_EXEC_OUTPUT)?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let patience = bounded("background_after_secs", self.background_after_secs, 0, 0, MAX_EXEC_SECS)?;
        let patience = Some(patience).filter(|seconds| *seconds > 0);
        let began = Instant::now();
        if let Some(id) = self.job_id {
            let patience = Duration::from_secs(patience.map_or(seconds, |patience| patience.min(seconds)));
            let guest = context.guest().await?;
            let mut output = Output::new(guest.clone(), most);
            let wait = handover::wait_again(&guest, id, patience, &mut output);
            let (ending, printed) =
                tokio::time::timeout(patience + GRACE, wait).await.map_err(|_| stuck())??;
            let shown = output.finish().await;
            return Ok(Executed {
                stdout_bytes: printed[0],
                stderr_bytes: printed[1],
                ..executed(&ending, began.elapsed(), shown, None)
            });
        }
        if self.command.is_empty() {
            return Err(Failure::new(Code::InvalidArgument, "`command` is missing")
                .with_remedy("give a command, or the job_id that an earlier exec returned"));
        }
        let mut command =
            shell(&self.command, self.workdir.as_deref(), self.env.expose(), self.user.as_deref())?;
        command.stdin = self.stdin.is_some();
        command.timeout_ms = Some(seconds * 1000);
        // A limit the caller did not choose is for calls, not for jobs.
        let timeout_ms = self.timeout_secs.map(|seconds| seconds * 1000);
        let handover = patience
            .filter(|patience| *patience < seconds)
            .map(|patience| Handover { at: began + Duration::from_secs(patience), timeout_ms });
        let wall = context.engine.clock.wall();
        let launched = context.start_command(&command).await?;
        let mut output = Output::new(launched.guest.clone(), most);
        let run = handover::run(
            launched.started,
            self.stdin.as_ref().map(|stdin| stdin.expose().as_str()),
            &mut output,
            handover,
        );
        let limit = Duration::from_secs(seconds) + GRACE;
        let ending = tokio::time::timeout(limit, run).await.map_err(|_| stuck())??;
        let mut executed = executed(&ending, began.elapsed(), output.finish().await, launched.shell);
        if executed.exit_code.is_some_and(|code| code != 0) {
            executed.hint = match hints::of(&launched.guest, &self.command, &executed).await {
                None => {
                    let about = is_about_network(&executed.stderr) || is_about_network(&executed.stdout);
                    context.network_advice(wall, about).await
                }
                hint => hint,
            };
        }
        Ok(executed)
    }
}

/// Runs a command of our own to its end, and keeps so much of each output.
pub(in crate::actions) async fn run(
    process: Box<dyn Process>,
    keep: usize,
) -> Result<(Exit, Capture, Capture), Failure> {
    let mut kept = (Capture::new(keep), Capture::new(keep));
    match handover::run(process, None, &mut kept, None).await? {
        Ending::Exited(exit) => Ok((exit, kept.0, kept.1)),
        Ending::Job(_) => {
            Err(Failure::new(Code::ProtocolViolation, "the agent made a job of a command unasked"))
        }
    }
}

fn executed(
    ending: &Ending,
    elapsed: Duration,
    (stdout, stderr): (Shown, Shown),
    shell: Option<Shell>,
) -> Executed {
    let (exit, job_id) = match ending {
        Ending::Exited(exit) => (Some(exit), None),
        Ending::Job(id) => (None, Some(*id)),
    };
    let timed_out = exit.is_some_and(|exit| exit.timed_out);
    let executed = Executed {
        exit_code: exit.filter(|_| !timed_out).map(|exit| code_and_signal(exit).0),
        truncated: stdout.cut || stderr.cut,
        stdout: stdout.text,
        stderr: stderr.text,
        timed_out,
        signal: exit.and_then(|exit| code_and_signal(exit).1),
        duration_ms: exit.map_or(elapsed.as_millis() as u64, |exit| exit.usage.wall_us / 1000),
        stdout_bytes: stdout.total,
        stderr_bytes: stderr.total,
        job_id,
        shell: shell.map(|shell| shell.path().to_owned()).unwrap_or_default(),
        stdout_file: stdout.file,
        stderr_file: stderr.file,
        hint: None,
    };
    Executed { hint: executed.what_next(), ..executed }
}

/// An exit code as a shell has it, and the signal if one ended the command.
pub(crate) fn code_and_signal(exit: &Exit) -> (i32, Option<i32>) {
    match exit.status {
        ExitStatus::Code(code) => (code, None),
        ExitStatus::Signal(signal) => (128 + signal, Some(signal)),
    }
}

/// A command line for the workspace's shell.
pub(super) fn shell(
    command: &str,
    workdir: Option<&str>,
    env: &BTreeMap<String, String>,
    as_user: Option<&str>,
) -> Result<Command, Failure> {
    if let Some(path) = workdir {
        absolute(path)?;
    }
    for name in env.keys() {
        variable_name(name)?;
    }
    let env = env.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()));
    let command = Command {
        env: env.collect(),
        workdir: workdir.map(|path| path.as_bytes().to_vec()),
        user: as_user.map(user).transpose()?,
        ..Command::new(Program::Line(command.to_owned()))
    };
    command.check()?;
    Ok(command)
}

/// A name a variable may have, by the agent's own rules.
pub(crate) fn variable_name(name: &str) -> Result<(), Failure> {
    check_name(name).map_err(|error| {
        Failure::new(Code::InvalidArgument, error.to_string())
            .with_remedy("letters, digits and underscores, not beginning with a digit; PATH and its like are set within a command")
    })
}

/// A number within its bounds, or its default.
pub(in crate::actions) fn bounded(
    name: &str,
    asked: Option<u64>,
    default: u64,
    least: u64,
    most: u64,
) -> Result<u64, Failure> {
    let value = asked.unwrap_or(default);
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Failure::new(Code::InvalidArgument, format!("{name} must be {least} to {most}, not {value}")))
}

fn stuck() -> Failure {
    Failure::new(Code::Timeout, "the machine did not end the command in time")
        .with_remedy("look at workspace_logs; workspace_stop with force ends the machine")
}

impl Perform for SetEnv {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<EnvSet, Failure> {
        let vars = self.vars.expose();
        for name in vars.keys() {
            variable_name(name)?;
        }
        let id = context.workspace()?.id;
        let running = context.engine.host.info(id).await?.state == State::Running;
        let guest = if running { Some(context.guest().await?) } else { None };
        let setter = context.caller.session;
        let names = context.engine.set_variables(id, setter, vars, guest.as_ref()).await?;
        Ok(EnvSet { count: vars.len(), status: "set".to_owned(), names })
    }

    fn changed(outcome: &EnvSet) -> Option<String> {
        Some(format!("{} variables", outcome.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_change_how_programs_are_found_are_refused() {
        for good in ["A", "_x", "API_KEY", "a1"] {
            variable_name(good).unwrap();
        }
        for bad in ["", "1a", "a-b", "a b", "ä", "PATH", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "a\0"] {
            assert_eq!(variable_name(bad).unwrap_err().code(), Code::InvalidArgument, "{bad:?}");
        }
    }
}
