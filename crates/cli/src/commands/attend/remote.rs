//! Standing between a command the daemon runs and this process's own input, output and signals.
//!
//! ```text
//!  asked ─► started ─► exits: its own exit code
//!    │ signal  │ signal: passed on; again: the connection is closed, which ends the command with all its children
//!    ▼         ▼
//!  nothing has changed
//! ```

use std::time::Duration;

use agentiso_api::http::{ExecControl, ExecSpec, ExecWord, INPUT_PIECE, INPUT_WINDOW, STDERR};
use agentiso_api::{Client, ExecStream};
use agentiso_core::{Code, Failure};
use agentiso_engine::Refused;
use agentiso_runtime::guest::{Exit, ExitStatus, Usage};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::conversation::{Outcome, SIGPIPE};
use super::exit::{NOT_EXECUTABLE, NOT_FOUND};
use super::input::Input;
use super::keeper::Keeper;
use super::signals::{Signals, Wish};
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
        say(&mut to, ExecControl::Eof(true)).await;
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
            part(&mut to, &mut from).await;
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

type To = SplitSink<ExecStream, Message>;
type From = SplitStream<ExecStream>;

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
        to: &mut To,
        from: &mut From,
        signals: &mut Signals,
    ) -> Result<End, Failure> {
        let mut asked_to_end = false;
        loop {
            let takes_input = self.pieces.is_some() && self.room >= INPUT_PIECE;
            tokio::select! {
                message = from.next() => if let Some(end) = self.hear(message)? {
                    return Ok(end);
                },
                piece = next_piece(&mut self.pieces), if takes_input => match piece {
                    Some(piece) => {
                        self.room = self.room.saturating_sub(piece.len());
                        send(to, Message::Binary(piece.into())).await;
                    }
                    None => {
                        self.pieces = None;
                        say(to, ExecControl::Eof(true)).await;
                    }
                },
                wish = signals.next() => match wish {
                    Wish::End(number) if asked_to_end || self.whereabouts.is_none() => {
                        return Ok(End::Interrupted(number));
                    }
                    Wish::End(number) => {
                        asked_to_end = true;
                        say(to, ExecControl::Signal(number)).await;
                    }
                    Wish::Resize => {
                        let (columns, rows) = terminal::size();
                        say(to, ExecControl::Resize(columns, rows)).await;
                    }
                },
            }
        }
    }

    /// Takes a message of the daemon's. Returns how the command ended, if it did.
    fn hear(&mut self, message: Option<Result<Message, Error>>) -> Result<Option<End>, Failure> {
        match message {
            Some(Ok(Message::Binary(bytes))) => {
                let Some((&channel, bytes)) = bytes.split_first() else { return Ok(None) };
                let kept = self.keeper.keep(usize::from(channel == STDERR), bytes);
                // Nobody listens to us: what we were about to say ends the command as it would end a program here.
                Ok(kept.err().map(|_| End::Interrupted(SIGPIPE)))
            }
            Some(Ok(Message::Text(text))) => {
                let word = serde_json::from_str(&text).map_err(|error| lost(&error.to_string()))?;
                self.take(word)
            }
            Some(Ok(Message::Close(_))) | None => Err(lost("the daemon ended it")),
            Some(Ok(_)) => Ok(None),
            Some(Err(error)) => Err(lost(&error.to_string())),
        }
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
            ExecWord::Exit { code, signal, timed_out, usage } => {
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
                let failure = agentiso_api::http::ErrorBody { error: fields }.into();
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

async fn say(to: &mut To, word: ExecControl) {
    if let Ok(text) = serde_json::to_string(&word) {
        send(to, Message::Text(text.into())).await;
    }
}

/// A connection that takes nothing any more says so to whoever listens on it.
async fn send(to: &mut To, message: Message) {
    let _ = to.send(message).await;
}

/// Closes the connection and waits until the daemon has heard it.
async fn part(to: &mut To, from: &mut From) {
    let farewell = async {
        let _ = to.close().await;
        while let Some(Ok(_)) = from.next().await {}
    };
    // A daemon that does not answer has other troubles, and the next command will say which.
    let _ = tokio::time::timeout(GOODBYE, farewell).await;
}

fn lost(why: &str) -> Failure {
    Failure::new(Code::DaemonUnavailable, format!("the connection to the command is lost: {why}"))
        .with_remedy("agentiso daemon status names the daemon's log")
}
