//! Standing between a command the daemon runs and this process's own input, output and signals.
//!
//! ```text
//!  asked ─► started ─► exits: its own exit code
//!    │ signal  │ signal: passed on; again: the connection is closed, which ends the command with all its children
//!    ▼         ▼
//!  nothing has changed
//! ```

use std::time::Duration;

use agentiso_client::{Client, ExecEvent, ExecInput, ExecOutput};
use agentiso_core::Failure;
use agentiso_core::wire::{ExecExit, ExecSpec, ExecWord, INPUT_PIECE, INPUT_WINDOW, Refused};
use agentiso_runtime::guest::{Exit, ExitStatus, Usage};
use tokio::sync::mpsc;

use super::conversation::{Outcome, SIGPIPE};
use super::exit::{NOT_EXECUTABLE, NOT_FOUND};
use super::input::Input;
use super::keeper::Keeper;
use super::signals::{Requested, Signals};
use crate::output::Output;
use crate::terminal::{self, RawMode};

/// How long the daemon may take to hear that a command is to end.
const GOODBYE: Duration = Duration::from_secs(5);

/// The workspace a command ran in.
#[derive(Default)]
pub struct Whereabouts {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// Runs a command in a workspace and stays with it to its end.
pub async fn attend_in_workspace(
    client: &Client,
    workspace: &str,
    spec: &ExecSpec,
    signals: &mut Signals,
    output: Output,
) -> Result<(Outcome, Whereabouts), Failure> {
    let raw_mode =
        if spec.tty.is_some() && terminal::input_is_terminal() { RawMode::enter().ok() } else { None };
    // An input that is not to be read is not looked at either.
    let input = if spec.stdin { Input::of_process().ok() } else { None };
    let report_input = spec.tty.is_none() && input.as_ref().is_some_and(Input::can_be_left);
    let spec = ExecSpec { report_input, ..spec.clone() };
    let (mut to, mut from) = client.exec(workspace, &spec).await?.split();
    let mut talk =
        Talk { keeper: Keeper::new(output), whereabouts: None, room: INPUT_WINDOW, input, pieces: None };
    if spec.stdin && talk.input.is_none() {
        to.end().await;
    }
    let ended = talk.converse(&mut to, &mut from, signals).await;
    drop(raw_mode);
    if let Some(input) = talk.input.take() {
        input.leave();
    }
    let whereabouts = talk.whereabouts.unwrap_or_default();
    let outcome = match ended? {
        End::Exited(exit) => Outcome::Ended { exit, captured: talk.keeper.captured() },
        End::Refused(code, failure) => Outcome::Refused(code, failure),
        End::Interrupted(number) => {
            part(to, from).await;
            Outcome::Interrupted(number)
        }
    };
    Ok((outcome, whereabouts))
}

enum End {
    Exited(Exit),
    Refused(u8, Failure),
    Interrupted(i32),
}

struct Talk {
    keeper: Keeper,
    /// Known as soon as the command runs.
    whereabouts: Option<Whereabouts>,
    /// How much input the daemon has room for.
    room: usize,
    /// Our standard input, if the command gets it.
    input: Option<Input>,
    /// Pieces of it, from the command's start to the input's end.
    pieces: Option<mpsc::Receiver<Vec<u8>>>,
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
                wish = signals.next() => match wish {
                    Requested::End(number) if asked_to_end || self.whereabouts.is_none() => {
                        return Ok(End::Interrupted(number));
                    }
                    Requested::End(number) => {
                        asked_to_end = true;
                        to.signal(number).await;
                    }
                    Requested::Resize => {
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
            ExecWord::Started { workspace_id, workspace, reports_input } => {
                self.pieces = self.input.as_mut().map(|input| input.start(reports_input));
                self.whereabouts = Some(Whereabouts { id: workspace_id, name: workspace });
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
            ExecWord::Exit(ExecExit { code, signal, timed_out, usage }) => {
                let status = match signal {
                    Some(number) => ExitStatus::Signal(number),
                    None => ExitStatus::Code(code.unwrap_or_default()),
                };
                let usage = Usage {
                    wall_us: usage.wall_us,
                    user_us: usage.user_us,
                    system_us: usage.system_us,
                    max_rss_kib: usage.max_rss_kib,
                };
                Ok(Some(End::Exited(Exit { status, timed_out, cancelled: false, usage })))
            }
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

/// Closes the connection and waits until the daemon has noticed.
async fn part(mut to: ExecInput, from: ExecOutput) {
    let farewell = async {
        to.close().await;
        from.closed().await;
    };
    // A daemon that does not answer has other troubles, and the next command will say which.
    let _ = tokio::time::timeout(GOODBYE, farewell).await;
}
