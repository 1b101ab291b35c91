//! The conversation with the daemon while a command runs.
//!
//! ```text
//!  requested ─► started ─► exits: its own exit code
//!    │ signal     │ signal: passed on to the command; a second one: the stream is closed, which ends the command with all
//!    ▼            ▼         its children, and the workspace of a `run`
//!  stream closed: nothing was started, or it is undone
//! ```

use std::sync::Arc;
use std::time::Duration;

use agentiso_client::{Client, ExecEvent, ExecInput, ExecOutput, ExecStream};
use agentiso_core::progress::Progress;
use agentiso_core::wire::{
    ExecExit, ExecSpec, ExecWord, INPUT_PIECE, INPUT_WINDOW, Refused, RunMachine, RunSpec,
};
use agentiso_core::{Capture, Failure};
use tokio::sync::mpsc;

use super::exit::{NOT_EXECUTABLE, NOT_FOUND};
use super::input::Input;
use super::keeper::Keeper;
use super::signals::{Caught, Signals};
use crate::output::Output;
use crate::terminal::{self, RawMode};

const SIGPIPE: i32 = 13;
/// How long the daemon may take to close the stream of a command that is to end.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// How a command ended.
pub enum Outcome {
    /// It ran and ended.
    Ended {
        /// Its exit status.
        exit: ExecExit,
        /// What it printed, if that was to be kept.
        captured: [Capture; 2],
    },
    /// It could not be started; the exit code says why.
    Refused(u8, Failure),
    /// A signal came before it was started, or a second one before it ended.
    Interrupted(i32),
}

/// A command that is over.
pub struct Attended {
    /// How it ended.
    pub outcome: Outcome,
    /// Where it ran; empty if it was not started.
    pub place: Place,
}

/// Where a command ran.
#[derive(Default)]
pub struct Place {
    /// Id of the workspace.
    pub id: String,
    /// Name of the workspace.
    pub name: String,
    /// The machine, if it was started for the command.
    pub machine: Option<RunMachine>,
}

/// Runs a command in a workspace, and returns when it is over.
pub async fn attend_exec(
    client: &Client,
    workspace: &str,
    spec: &ExecSpec,
    signals: &mut Signals,
    output: Output,
) -> Result<Attended, Failure> {
    let (spec, input) = with_input(spec);
    let stream = client.exec(workspace, &spec).await?;
    attend(stream, &spec, input, signals, output).await
}

/// Runs a command in a workspace of its own, and returns when both are gone.
pub async fn attend_run(
    client: &Client,
    spec: &RunSpec,
    signals: &mut Signals,
    output: Output,
) -> Result<Attended, Failure> {
    let (command, input) = with_input(&spec.command);
    let spec = RunSpec { command, workspace: spec.workspace.clone() };
    let stream = client.run(&spec).await?;
    attend(stream, &spec.command, input, signals, output).await
}

/// Our standard input, if the command is to read it, and a command that reports how much it reads if that matters.
fn with_input(spec: &ExecSpec) -> (ExecSpec, Option<Input>) {
    let input = if spec.stdin { Input::of_process().ok() } else { None };
    let report_input = spec.tty.is_none() && input.as_ref().is_some_and(Input::can_be_left);
    (ExecSpec { report_input, ..spec.clone() }, input)
}

async fn attend(
    stream: ExecStream,
    spec: &ExecSpec,
    input: Option<Input>,
    signals: &mut Signals,
    output: Output,
) -> Result<Attended, Failure> {
    let (mut to, mut from) = stream.split();
    let mut talk = Talk {
        keeper: Keeper::new(output),
        progress: Some(output.progress()),
        place: None,
        room: INPUT_WINDOW,
        input,
        pieces: None,
        has_terminal: spec.tty.is_some() && terminal::input_is_terminal(),
        raw_mode: None,
    };
    if spec.stdin && talk.input.is_none() {
        to.end().await;
    }
    let ended = talk.converse(&mut to, &mut from, signals).await;
    talk.raw_mode = None;
    if let Some(input) = talk.input.take() {
        input.leave();
    }
    let outcome = match ended? {
        End::Exited(exit) => Outcome::Ended { exit, captured: talk.keeper.captured() },
        End::Refused(code, failure) => Outcome::Refused(code, failure),
        End::Interrupted(number) => {
            close(to, from).await;
            Outcome::Interrupted(number)
        }
    };
    Ok(Attended { outcome, place: talk.place.unwrap_or_default() })
}

enum End {
    Exited(ExecExit),
    Refused(u8, Failure),
    Interrupted(i32),
}

struct Talk {
    keeper: Keeper,
    /// Where the creation of a workspace is shown, until the command runs.
    progress: Option<Arc<dyn Progress>>,
    /// Known as soon as the command runs.
    place: Option<Place>,
    /// How much input the daemon has room for.
    room: usize,
    /// Our standard input, if the command gets it.
    input: Option<Input>,
    /// Pieces of it, from the command's start to the input's end.
    pieces: Option<mpsc::Receiver<Vec<u8>>>,
    /// Whether our terminal is the command's while it runs.
    has_terminal: bool,
    raw_mode: Option<RawMode>,
}

impl Talk {
    async fn converse(
        &mut self,
        to: &mut ExecInput,
        from: &mut ExecOutput,
        signals: &mut Signals,
    ) -> Result<End, Failure> {
        let mut asked_to_end = false;
        loop {
            let takes_input = self.pieces.is_some() && self.room >= INPUT_PIECE;
            tokio::select! {
                message = from.next() => if let Some(end) = self.hear(message?)? {
                    return Ok(end);
                },
                piece = next_piece(&mut self.pieces), if takes_input => match piece {
                    Some(piece) => {
                        self.room = self.room.saturating_sub(piece.len());
                        to.write(piece).await;
                    }
                    None => {
                        self.pieces = None;
                        to.end().await;
                    }
                },
                request = signals.next() => match request {
                    Caught::End(number) if asked_to_end || self.place.is_none() => {
                        return Ok(End::Interrupted(number));
                    }
                    Caught::End(number) => {
                        asked_to_end = true;
                        to.signal(number).await;
                    }
                    Caught::Resize => {
                        let (columns, rows) = terminal::size();
                        to.resize(columns, rows).await;
                    }
                },
            }
        }
    }

    /// Handles an event of the command. Returns how the command ended, if it did.
    fn hear(&mut self, event: ExecEvent) -> Result<Option<End>, Failure> {
        let (stream, bytes) = match event {
            ExecEvent::Stdout(bytes) => (0, bytes),
            ExecEvent::Stderr(bytes) => (1, bytes),
            ExecEvent::Word(word) => return self.take(word),
        };
        // If nobody reads our output, the command ends as a program here would.
        Ok(self.keeper.keep(stream, &bytes).err().map(|_| End::Interrupted(SIGPIPE)))
    }

    fn take(&mut self, word: ExecWord) -> Result<Option<End>, Failure> {
        match word {
            ExecWord::Progress(word) => {
                if let Some(progress) = &self.progress {
                    word.report(progress.as_ref());
                }
                Ok(None)
            }
            ExecWord::Started { workspace_id, workspace, reports_input, machine } => {
                self.progress = None;
                // Not before: until the command runs, Ctrl-C is for us.
                self.raw_mode = if self.has_terminal { RawMode::enter().ok() } else { None };
                self.pieces = self.input.as_mut().map(|input| input.start(reports_input));
                self.place = Some(Place { id: workspace_id, name: workspace, machine });
                Ok(None)
            }
            ExecWord::Taken(count) => {
                self.room += count;
                Ok(None)
            }
            ExecWord::Read(bytes) => {
                if let Some(input) = &mut self.input {
                    input.was_read(bytes);
                }
                Ok(None)
            }
            ExecWord::Exit(exit) => Ok(Some(End::Exited(exit))),
            ExecWord::Error { fields, refused } => {
                let failure = fields.into();
                match refused {
                    Some(Refused::NotFound) => Ok(Some(End::Refused(NOT_FOUND, failure))),
                    Some(Refused::NotExecutable) => Ok(Some(End::Refused(NOT_EXECUTABLE, failure))),
                    None => Err(failure),
                }
            }
        }
    }
}

async fn next_piece(pieces: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match pieces {
        Some(pieces) => pieces.recv().await,
        None => std::future::pending().await,
    }
}

/// Closes the stream and waits until the daemon has closed it too.
async fn close(mut to: ExecInput, from: ExecOutput) {
    let closing = async {
        to.close().await;
        from.closed().await;
    };
    // A daemon that does not answer is reported by the next command.
    let _ = tokio::time::timeout(CLOSE_LIMIT, closing).await;
}
