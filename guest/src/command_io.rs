//! The input and output of a running command.

use agentiso_proto::{Channel, Control};

use crate::{frames::Scratch, link::Ended};

/// The source of a command's input and the target of its output: a stream of the session, or a job.
pub(crate) trait CommandIo: Send + Sync {
    /// Signals and requests to handle now.
    fn signals(&self) -> Signals;

    /// The next piece of input, if there is one. Input after a resize or a signal is returned after that was handled.
    fn try_receive(&self) -> Input;

    /// How much output is accepted now.
    fn room(&self, channel: Channel) -> usize;

    /// Takes the output in the worker's data frame. With `at_last` it may be sent together with the exit status.
    fn take_output(&self, channel: Channel, scratch: &mut Scratch, at_last: bool) -> Result<(), Ended>;

    /// The command reads no more input.
    fn input_refused(&self);

    /// The command has read so many bytes of its input.
    fn input_read(&self, _bytes: u64) {}

    /// The command is to end.
    fn cancel(&self);

    /// Turns the command into a job; says whether it became one now.
    fn detach(&self) -> bool {
        false
    }
}

/// What became of a command's input.
pub(crate) enum Input {
    /// A piece of it.
    Data(Vec<u8>),
    /// It is complete.
    Eof,
    /// Nothing has come yet.
    Pending,
}

/// What a command's supervisor must act on.
pub(crate) struct Signals {
    /// The host wants it to end.
    pub(crate) cancelled: bool,
    /// Nobody listens any more.
    pub(crate) ended: bool,
    /// Controls that came since.
    pub(crate) controls: Vec<Control>,
}
