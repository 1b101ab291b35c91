//! Source of a command's input and destination of its output.

use agentiso_proto::{Channel, Control};

use crate::{frames::Scratch, link::Ended};

/// Source of a command's input and destination of its output: a stream of the session, or a job.
pub(crate) trait CommandIo: Send + Sync {
    /// What the supervisor must act on now.
    fn signals(&self) -> Signals;

    /// Takes the next chunk of input, if any. Input that follows a resize or signal is withheld until that has been
    /// taken.
    fn try_receive(&self) -> Input;

    /// Bytes of output that are accepted now.
    fn room(&self, channel: Channel) -> usize;

    /// Takes the output in the worker's data frame. With `at_last` it may be sent together with the exit status.
    fn take_output(&self, channel: Channel, scratch: &mut Scratch, at_last: bool) -> Result<(), Ended>;

    /// The command has closed its input.
    fn input_refused(&self);

    /// The command has read this many bytes of its input in all.
    fn input_read(&self, _bytes: u64) {}

    /// Requests the end of the command.
    fn cancel(&self);

    /// Turns the command into a job. Returns whether this call did so.
    fn detach(&self) -> bool {
        false
    }
}

/// The result of asking for input.
pub(crate) enum Input {
    Data(Vec<u8>),
    /// The input is complete.
    Eof,
    /// Nothing has arrived yet.
    Pending,
}

/// Events that a command's supervisor must act on.
pub(crate) struct Signals {
    /// The host cancelled the command.
    pub(crate) cancelled: bool,
    /// The session ended, so output is discarded.
    pub(crate) ended: bool,
    /// Controls since the last call.
    pub(crate) controls: Vec<Control>,
}
