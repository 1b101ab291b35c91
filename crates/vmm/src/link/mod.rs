//! The host's side of the guest link.
//!
//! ```text
//!            requests, cancels, signals, pings ─► control ─┐
//!  callers ─┤                                              ├─► writer ─► guest
//!            data, ends of data ────────────────► bulk ────┘
//!
//!  callers ◄─ one inbox per stream ◄─ reader ◄──────────────────────────  guest
//! ```
//!
//! A session lasts from [`Guest::open`] until the connection ends, the guest violates the protocol, or the last handle is
//! dropped. The guest is hostile: the reader never waits for a consumer, memory is bounded by the credit that the host
//! granted, and the first invalid frame ends the session for all its users.
//!
//! Failure modes:
//!
//! * The connection ends: every waiter gets [`LinkError::Closed`].
//! * The guest violates the protocol: every waiter gets [`LinkError::Violation`].
//! * There is no common version: every waiter gets [`LinkError::Version`].
//! * The caller drops a request: the stream is cancelled, and its id is not reused before the guest's final response.
//! * The agent is older than the request: [`LinkError::OldAgent`].
//! * The guest does not answer: [`LinkError::Silent`], after a limit that depends on the request (`deadline`).

mod calls;
mod connection;
mod deadline;
mod environment;
mod exchange;
mod exec;
mod files;
mod jobs;
mod port;
mod reader;
mod search;
mod session;
mod stream;
mod trees;
mod writer;

pub use agentiso_core::ports::link::{Found, Grepped, JobOutput, LinkError, ProcessEvent, WriteOptions};
pub use connection::{ConnectionReader, ConnectionWriter};
pub use exec::{Process, ProcessControl, Stdin};
pub use files::{FileReader, FileWriter};
pub use session::{Guest, Resync, SessionOptions};
pub use trees::{TreeReader, TreeWriter};
