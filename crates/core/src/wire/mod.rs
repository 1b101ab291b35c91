//! The protocol between the daemon and its clients besides actions and outcomes: errors, sessions, events, progress,
//! and the messages of command streams.
//!
//! Both sides use these types, so a change here changes the protocol. Clients and daemons may have different
//! versions: fields may be added with a default, but not removed or given another meaning.

mod brief;
mod error;
mod event;
mod exec;
mod limits;
mod progress;
mod run;
mod session;

pub use brief::in_brief;
pub use error::{ErrorBody, ErrorFields};
pub use event::{EventKind, JobOutput, WorkspaceEvent};
pub use exec::{
    ExecControl, ExecExit, ExecSpec, ExecUsage, ExecWord, INPUT_PIECE, INPUT_WINDOW, Refused, STDERR, STDOUT,
    Word,
};
pub use limits::{body_limit, body_too_long};
pub use progress::ProgressWord;
pub use run::{RunMachine, RunSpec, RunWorkspace};
pub use session::{CLIENT_HEADER, SESSION_HEADER, SessionRequest, SessionStarted};
