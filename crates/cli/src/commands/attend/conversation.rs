//! Standing between a command in a machine and this process's own input, output and signals.

use agentiso_core::wire::Refused;
use agentiso_core::{Capture, Failure};
use agentiso_engine::NotStarted;
use agentiso_runtime::Machine;
use agentiso_runtime::guest::{Exec, Exit, LinkError, Process, ProcessControl, ProcessEvent, Stdin};
use tokio::sync::mpsc;

use super::exit::{NOT_EXECUTABLE, NOT_FOUND};
use super::input::Input;
use super::keeper::Keeper;
use super::signals::{Requested, Signals};
use crate::output::Output;
use crate::terminal::{self, RawMode};

pub(super) const SIGPIPE: i32 = 13;

/// How it ended.
pub enum Outcome {
    /// The command ran and ended.
    Ended {
        /// How.
        exit: Exit,
        /// What it printed, if that was to be kept.
        captured: [Capture; 2],
    },
    /// The command could not be started; the exit code says why.
    Refused(u8, Failure),
    /// A second signal came before the command ended.
    Interrupted(i32),
}

/// Runs a command and stays with it to its end.
pub async fn attend(
    machine: &Machine,
    exec: Exec,
    signals: &mut Signals,
    output: Output,
) -> Result<Outcome, Failure> {
    let with_terminal = exec.tty.is_some();
    let raw_mode = if with_terminal && terminal::input_is_terminal() { RawMode::enter().ok() } else { None };
    let process = match machine.guest().exec(exec).await {
        Ok(process) => process,
        Err(error) => return Err(machine.explain(error).await.into()),
    };
    let mut keeper = Keeper::new(output);
    let attended = tokio::select! {
        ended = converse(process, with_terminal, signals, &mut keeper) => ended,
        crash = machine.crashed() => return Err(crash.into()),
    };
    drop(raw_mode);
    match attended {
        Ok(Conversation::Ended(exit)) => Ok(Outcome::Ended { exit, captured: keeper.captured() }),
        Ok(Conversation::Interrupted(number)) => Ok(Outcome::Interrupted(number)),
        Ok(Conversation::NobodyListens) => Ok(Outcome::Interrupted(SIGPIPE)),
        Err(error @ LinkError::Guest(_)) => {
            let NotStarted { failure, refused } = error.into();
            match refused {
                Some(Refused::NotFound) => Ok(Outcome::Refused(NOT_FOUND, failure)),
                Some(Refused::NotExecutable) => Ok(Outcome::Refused(NOT_EXECUTABLE, failure)),
                None => Err(failure),
            }
        }
        Err(error) => Err(machine.explain(error).await.into()),
    }
}

enum Conversation {
    Ended(Exit),
    Interrupted(i32),
    NobodyListens,
}

async fn converse(
    mut process: Process,
    with_terminal: bool,
    signals: &mut Signals,
    keeper: &mut Keeper,
) -> Result<Conversation, LinkError> {
    let control = process.control();
    let mut input = None;
    if let Some(stdin) = process.take_stdin()
        && let Ok(mut source) = Input::of_process()
    {
        let reported = !with_terminal && source.can_be_left() && control.report_input().await.is_ok();
        tokio::spawn(feed(stdin, source.start(reported)));
        input = Some(source);
    }
    let ended = hear(&mut process, &control, signals, keeper, &mut input).await;
    if let Some(input) = input {
        input.leave();
    }
    ended
}

async fn hear(
    process: &mut Process,
    control: &ProcessControl,
    signals: &mut Signals,
    keeper: &mut Keeper,
    input: &mut Option<Input>,
) -> Result<Conversation, LinkError> {
    let mut asked_to_end = false;
    loop {
        tokio::select! {
            event = process.next() => match event? {
                Some(ProcessEvent::Stdout(bytes)) => {
                    if keeper.keep(0, &bytes).is_err() {
                        return Ok(Conversation::NobodyListens);
                    }
                }
                Some(ProcessEvent::Stderr(bytes)) => {
                    if keeper.keep(1, &bytes).is_err() {
                        return Ok(Conversation::NobodyListens);
                    }
                }
                Some(ProcessEvent::InputRead(bytes)) => {
                    if let Some(input) = input {
                        input.was_read(bytes);
                    }
                }
                Some(ProcessEvent::Started { .. } | ProcessEvent::Detached { .. }) => {}
                Some(ProcessEvent::Exited(exit)) => return Ok(Conversation::Ended(exit)),
                None => return Err(LinkError::Violation("a command ended without saying how".to_owned())),
            },
            wish = signals.next() => match wish {
                Requested::End(number) if asked_to_end => return Ok(Conversation::Interrupted(number)),
                Requested::End(number) => {
                    asked_to_end = true;
                    control.signal(number).await?;
                }
                Requested::Resize => {
                    let (columns, rows) = terminal::size();
                    control.resize(columns, rows).await?;
                }
            },
        }
    }
}

/// Passes standard input on until it ends or the command does.
async fn feed(mut stdin: Stdin, mut pieces: mpsc::Receiver<Vec<u8>>) {
    while let Some(piece) = pieces.recv().await {
        if stdin.write(&piece).await.is_err() {
            return;
        }
    }
    stdin.close();
}
