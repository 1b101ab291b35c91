//! Commands that run while their caller is connected.

use async_trait::async_trait;
use bytes::Bytes;

use super::{Exit, LinkError};

/// What happened to a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ProcessEvent {
    /// It runs. Always the first event.
    Started {
        /// Its process id in the guest.
        pid: u32,
    },
    /// It wrote to its standard output, or its terminal.
    Stdout(Bytes),
    /// It wrote to its standard error.
    Stderr(Bytes),
    /// It has read so many bytes of its input since its start. Only after [`ProcessControl::report_input`].
    InputRead(u64),
    /// It ended. Nothing follows.
    Exited(Exit),
    /// It continues as a job. Nothing follows.
    Detached {
        /// The job's number.
        job: u32,
    },
}

/// A command. Dropping it before it ended ends the command.
#[async_trait]
pub trait Process: Send + Sync {
    /// Waits for the next event; `None` once the command has ended. Cancel safe. Output that is not taken makes the
    /// command wait and nothing else.
    async fn next(&mut self) -> Result<Option<ProcessEvent>, LinkError>;

    /// The command's standard input, once, if the request asked for it.
    fn take_stdin(&mut self) -> Option<Box<dyn Stdin>>;

    /// A handle that can end, signal or resize the command from elsewhere.
    fn control(&self) -> Box<dyn ProcessControl>;
}

/// A command's standard input. Dropping it is the end of input.
#[async_trait]
pub trait Stdin: Send + Sync {
    /// Writes all of it, as fast as the command reads. If the future is dropped, some of it may have been written.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError>;
}

/// Controls a command; has no effect on one that has ended.
#[async_trait]
pub trait ProcessControl: Send + Sync {
    /// Ends the command and all its children. Its [`ProcessEvent::Exited`] still comes.
    fn cancel(&self);

    /// Sends a signal to the command's process group.
    async fn signal(&self, signal: i32) -> Result<(), LinkError>;

    /// Requests that the command become a job, which ends this many milliseconds after the command's start; never if
    /// absent. The next events say whether it did: [`ProcessEvent::Detached`], or [`ProcessEvent::Exited`] as usual.
    async fn detach(&self, timeout_ms: Option<u64>) -> Result<(), LinkError>;

    /// Requests reports on how much of the input written from now on the command reads. Not with a terminal.
    async fn report_input(&self) -> Result<(), LinkError>;

    /// Tells the command's terminal its new size.
    async fn resize(&self, columns: u16, rows: u16) -> Result<(), LinkError>;
}
