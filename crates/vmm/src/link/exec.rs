//! Running commands.

use std::sync::Arc;

use agentiso_proto::{Channel, Control, Exec, MAX_PAYLOAD, Request, Response, to_bytes};

use super::exchange::Exchange;
use super::stream::{Event, Shape, Stream};
use super::{Guest, LinkError, ProcessEvent};

/// What the guest may send: output on two channels, and the command's start and end.
const COMMAND: Shape = Shape { receives: &[Channel::Stdout, Channel::Stderr], budget: 2 * MAX_PAYLOAD };

impl Guest {
    /// Runs a command. The request is queued immediately; the first event reports that the command has started.
    pub async fn exec(&self, exec: Exec) -> Result<Process, LinkError> {
        let wants_stdin = exec.stdin;
        let exchange = self.start(&Request::Exec(exec), COMMAND).await?;
        let stdin = wants_stdin.then(|| Stdin { guest: self.clone(), stream: Arc::clone(exchange.stream()) });
        Ok(Process { exchange, stdin, stage: Stage::Starting })
    }
}

/// A command in the guest. Dropping it ends the command.
#[derive(Debug)]
pub struct Process {
    exchange: Exchange,
    stdin: Option<Stdin>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Starting,
    Running,
    Over,
}

impl Process {
    /// Waits for the next event; `None` once the command has ended. Cancel-safe. If output is not taken, only the command
    /// waits.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, LinkError> {
        if self.stage == Stage::Over {
            return Ok(None);
        }
        let event = self.exchange.next().await.inspect_err(|_| self.stage = Stage::Over)?;
        let event = match (event, self.stage) {
            (Event::Response(Response::Started { pid }), Stage::Starting) => {
                self.stage = Stage::Running;
                self.exchange.unlimited();
                ProcessEvent::Started { pid }
            }
            (Event::Data(Channel::Stdout, bytes), Stage::Running) => ProcessEvent::Stdout(bytes.into()),
            (Event::Data(Channel::Stderr, bytes), Stage::Running) => ProcessEvent::Stderr(bytes.into()),
            (Event::Response(Response::InputRead { bytes }), Stage::Running) => {
                ProcessEvent::InputRead(bytes)
            }
            (Event::Last(Response::Exited(exit)), Stage::Running) => {
                self.stage = Stage::Over;
                ProcessEvent::Exited(exit)
            }
            (Event::Last(Response::Detached { id }), Stage::Running) => {
                self.stage = Stage::Over;
                ProcessEvent::Detached { job: id }
            }
            (other, _) => {
                self.stage = Stage::Over;
                return Err(self.exchange.unexpected(&other));
            }
        };
        Ok(Some(event))
    }

    /// Takes the command's standard input, if it was requested.
    pub fn take_stdin(&mut self) -> Option<Stdin> {
        self.stdin.take()
    }

    /// A handle to end, signal or resize the command from another task.
    pub fn control(&self) -> ProcessControl {
        ProcessControl { guest: self.exchange.guest().clone(), stream: Arc::clone(self.exchange.stream()) }
    }
}

/// A command's standard input. Dropping it closes the input.
#[derive(Debug)]
pub struct Stdin {
    guest: Guest,
    stream: Arc<Stream>,
}

impl Stdin {
    /// Writes all bytes, as fast as the command reads. If the future is dropped, some of them may have been written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.guest.send(&self.stream, bytes).await
    }

    /// Closes the input.
    pub fn close(self) {}
}

impl Drop for Stdin {
    fn drop(&mut self) {
        self.guest.send_eof(&self.stream);
    }
}

/// Controls a command. Does nothing once the command has ended.
#[derive(Clone, Debug)]
pub struct ProcessControl {
    guest: Guest,
    stream: Arc<Stream>,
}

impl ProcessControl {
    /// Kills the command and all its children. [`ProcessEvent::Exited`] still follows.
    pub fn cancel(&self) {
        self.guest.cancel(&self.stream);
    }

    /// Sends a signal to the command's process group.
    pub async fn signal(&self, signal: i32) -> Result<(), LinkError> {
        self.control(Control::Signal(signal)).await
    }

    /// Turns the command into a job, which the agent kills `deadline` milliseconds after the command's start, if given.
    /// The next event is [`ProcessEvent::Detached`], or [`ProcessEvent::Exited`] if the command ended first.
    pub async fn detach(&self, timeout_ms: Option<u64>) -> Result<(), LinkError> {
        self.guest.needs_version(4).await?;
        self.control(Control::Detach { timeout_ms }).await
    }

    /// Requests reports of how much of the following input the command reads. [`ProcessEvent::InputRead`] follows when it
    /// has read the first piece, at most a page, and once more before the command ends. Not with a terminal.
    pub async fn report_input(&self) -> Result<(), LinkError> {
        self.guest.needs_version(5).await?;
        self.control(Control::ReportInput).await
    }

    /// Resizes the command's terminal.
    pub async fn resize(&self, columns: u16, rows: u16) -> Result<(), LinkError> {
        self.control(Control::Resize { columns, rows }).await
    }

    async fn control(&self, control: Control) -> Result<(), LinkError> {
        let payload = to_bytes(&control).map_err(|error| LinkError::Unencodable(error.to_string()))?;
        self.guest.control(&self.stream, &payload).await
    }
}
