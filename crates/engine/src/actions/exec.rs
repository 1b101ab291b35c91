//! Commands that are waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use agentiso_core::action::{EnvSet, Exec, Executed, SetEnv};
use agentiso_core::{Capture, Code, Failure};
use agentiso_runtime::guest::{self, Exit, ExitStatus, Guest, ProcessEvent, User};

use crate::act::Context;
use crate::rooms::locked;
use crate::{Access, Perform, held};

const TIMEOUT: u64 = 120;
const LONGEST: u64 = 86_400;
const OUTPUT: u64 = 256 * 1024;
const MOST_OUTPUT: u64 = 4 << 20;
/// The longest command line.
const LONGEST_COMMAND: usize = 128 * 1024;
/// How much longer than its time limit a command is waited for, before its machine is taken to be stuck.
const GRACE: Duration = Duration::from_secs(20);

impl Perform for Exec {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<Executed, Failure> {
        let seconds = bounded("timeout_secs", self.timeout_secs, TIMEOUT, 1, LONGEST)?;
        let output = bounded("max_output_bytes", self.max_output_bytes, OUTPUT, 0, MOST_OUTPUT)?;
        let mut command = shell(&self.command, self.workdir.as_deref(), &self.env, self.user.as_deref())?;
        command.stdin = self.stdin.is_some();
        command.timeout_ms = Some(seconds * 1000);
        let guest = context.guest().await?;
        let run = run(&guest, command, self.stdin.as_deref(), usize::try_from(output).unwrap_or(usize::MAX));
        let limit = Duration::from_secs(seconds) + GRACE;
        let (exit, stdout, stderr) = tokio::time::timeout(limit, run).await.map_err(|_| stuck())??;
        Ok(executed(&exit, &stdout, &stderr))
    }
}

/// Runs a command to its end.
pub(super) async fn run(
    guest: &Guest,
    command: guest::Exec,
    stdin: Option<&str>,
    keep: usize,
) -> Result<(Exit, Capture, Capture), Failure> {
    let (mut stdout, mut stderr) = (Capture::new(keep), Capture::new(keep));
    let mut process = held::start(guest, &command).await?;
    let input = process.take_stdin();
    let feed = async {
        if let (Some(mut input), Some(text)) = (input, stdin) {
            // A command need not read all it is given.
            let _ = input.write(text.as_bytes()).await;
            input.close();
        }
    };
    let listen = async {
        loop {
            match process.next().await? {
                Some(ProcessEvent::Stdout(bytes)) => stdout.push(&bytes),
                Some(ProcessEvent::Stderr(bytes)) => stderr.push(&bytes),
                Some(ProcessEvent::Exited(exit)) => return Ok(exit),
                Some(_) => {}
                None => return Err(Failure::new(Code::GuestFailed, "the command ended without a word")),
            }
        }
    };
    let (_, exit) = tokio::join!(feed, listen);
    Ok((exit?, stdout, stderr))
}

fn executed(exit: &Exit, stdout: &Capture, stderr: &Capture) -> Executed {
    let (code, signal) = code_and_signal(exit);
    Executed {
        exit_code: if exit.timed_out { None } else { Some(code) },
        stdout: stdout.text(),
        stderr: stderr.text(),
        timed_out: exit.timed_out,
        signal,
        duration_ms: exit.usage.wall_us / 1000,
        stdout_bytes: stdout.total(),
        stderr_bytes: stderr.total(),
        truncated: stdout.omitted() > 0 || stderr.omitted() > 0,
    }
}

/// An exit code as a shell has it, and the signal if one ended the command.
pub(crate) fn code_and_signal(exit: &Exit) -> (i32, Option<i32>) {
    match exit.status {
        ExitStatus::Code(code) => (code, None),
        ExitStatus::Signal(signal) => (128 + signal, Some(signal)),
    }
}

/// A command for the shell.
pub(super) fn shell(
    command: &str,
    workdir: Option<&str>,
    env: &BTreeMap<String, String>,
    user: Option<&str>,
) -> Result<guest::Exec, Failure> {
    if command.trim().is_empty() {
        return Err(Failure::new(Code::InvalidArgument, "command is empty"));
    }
    if command.len() > LONGEST_COMMAND || command.contains('\0') {
        let message = format!("command must be text of at most {LONGEST_COMMAND} bytes");
        return Err(Failure::new(Code::InvalidArgument, message)
            .with_remedy("write a script with file_write and run that"));
    }
    if let Some(path) = workdir {
        super::files::absolute(path)?;
    }
    for name in env.keys() {
        variable_name(name)?;
    }
    if env.values().any(|value| value.contains('\0')) {
        return Err(Failure::new(Code::InvalidArgument, "a variable's value contains a zero byte"));
    }
    Ok(guest::Exec {
        argv: vec![b"/bin/sh".to_vec(), b"-c".to_vec(), command.as_bytes().to_vec()],
        env: env
            .iter()
            .map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()))
            .collect(),
        workdir: workdir.map(|path| path.as_bytes().to_vec()),
        user: user.map(|name| User::Name(name.to_owned())),
        ..guest::Exec::default()
    })
}

/// A name a variable may have, by the agent's own rules.
pub(super) fn variable_name(name: &str) -> Result<(), Failure> {
    guest::check_name(name).map_err(|error| {
        Failure::new(Code::InvalidArgument, error.to_string())
            .with_remedy("letters, digits and underscores, not beginning with a digit; PATH and its like are set within a command")
    })
}

/// A number within its bounds, or its default.
pub(super) fn bounded(
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
        for name in self.vars.keys() {
            variable_name(name)?;
        }
        let id = context.workspace()?.id;
        let running = context.engine.workspaces.info(&id.to_string())?.state == "running";
        let room = context.engine.rooms.of(id);
        if running {
            let guest = context.guest().await?;
            // What there was must be known before it is added to.
            context.engine.env_of(id, Some(&guest)).await?;
            guest.set_env(self.vars.clone().into_iter().collect()).await?;
        }
        let mut env = locked(&room.env);
        env.change(&self.vars);
        Ok(EnvSet { count: self.vars.len(), status: "set".to_owned(), names: env.names() })
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
