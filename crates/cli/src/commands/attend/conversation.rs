//! Standing between a command in a machine and this process's own input, output and signals.

use std::io::{self, Read, Write};

use agentiso_core::{Capture, Code, Failure};
use agentiso_runtime::guest::{ErrorKind, Exec, Exit, LinkError, Process, ProcessEvent, Stdin};
use agentiso_runtime::{Machine, VmError};
use tokio::sync::mpsc;

use super::exit::{NOT_EXECUTABLE, NOT_FOUND};
use super::signals::{Signals, Wish};
use crate::output::Output;
use crate::terminal::{self, RawMode};

/// What `--json` keeps of each output stream.
const CAPTURE_BYTES: usize = 4 << 20;
/// How much input is read at once, and how many such pieces may wait for the machine.
const INPUT_BYTES: usize = 64 * 1024;
const INPUT_PIECES: usize = 4;
const SIGPIPE: i32 = 13;

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
    let mut keeper = Keeper { captured: [Capture::new(CAPTURE_BYTES), Capture::new(CAPTURE_BYTES)], output };
    let attended = tokio::select! {
        ended = converse(process, signals, &mut keeper) => ended,
        crash = machine.crashed() => return Err(crash.into()),
    };
    drop(raw_mode);
    match attended {
        Ok(Conversation::Ended(exit)) => Ok(Outcome::Ended { exit, captured: keeper.captured }),
        Ok(Conversation::Interrupted(number)) => Ok(Outcome::Interrupted(number)),
        Ok(Conversation::NobodyListens) => Ok(Outcome::Interrupted(SIGPIPE)),
        Err(LinkError::Guest(error)) => {
            let code = match error.kind {
                ErrorKind::NotFound => NOT_FOUND,
                ErrorKind::Denied => NOT_EXECUTABLE,
                _ => return Err(VmError::from(LinkError::Guest(error)).into()),
            };
            let failure =
                Failure::new(Code::GuestFailed, format!("the command could not start: {}", error.message))
                    .with_remedy("check the command's name, or use an image that has it");
            Ok(Outcome::Refused(code, failure))
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
    signals: &mut Signals,
    keeper: &mut Keeper,
) -> Result<Conversation, LinkError> {
    let control = process.control();
    if let Some(stdin) = process.take_stdin() {
        tokio::spawn(feed(stdin));
    }
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
                Some(ProcessEvent::Started { .. }) => {}
                Some(ProcessEvent::Exited(exit)) => return Ok(Conversation::Ended(exit)),
                None => return Err(LinkError::Violation("a command ended without saying how".to_owned())),
            },
            wish = signals.next() => match wish {
                Wish::End(number) if asked_to_end => return Ok(Conversation::Interrupted(number)),
                Wish::End(number) => {
                    asked_to_end = true;
                    control.signal(number).await?;
                }
                Wish::Resize => {
                    let (columns, rows) = terminal::size();
                    control.resize(columns, rows).await?;
                }
            },
        }
    }
}

/// Where the command's output goes.
struct Keeper {
    captured: [Capture; 2],
    output: Output,
}

impl Keeper {
    fn keep(&mut self, stream: usize, bytes: &[u8]) -> io::Result<()> {
        if self.output.json {
            self.captured[stream].push(bytes);
            return Ok(());
        }
        // Written here and now: the command's pace is the reader's pace.
        let mut out: Box<dyn Write> =
            if stream == 0 { Box::new(io::stdout()) } else { Box::new(io::stderr()) };
        out.write_all(bytes).and_then(|()| out.flush())
    }
}

/// Passes standard input on until it ends or the command does.
async fn feed(mut stdin: Stdin) {
    let mut pieces = read_input();
    while let Some(piece) = pieces.recv().await {
        if stdin.write(&piece).await.is_err() {
            return;
        }
    }
    stdin.close();
}

/// Standard input in pieces. A thread of its own reads it, because a read may last for ever.
fn read_input() -> mpsc::Receiver<Vec<u8>> {
    let (pieces, queue) = mpsc::channel(INPUT_PIECES);
    let read = move || {
        let mut buffer = vec![0; INPUT_BYTES];
        while let Ok(length @ 1..) = io::stdin().read(&mut buffer) {
            if pieces.blocking_send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    };
    // Without the thread the queue is closed: the command reads nothing.
    let _ = std::thread::Builder::new().name("stdin".to_owned()).spawn(read);
    queue
}
