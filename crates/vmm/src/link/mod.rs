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
//! A session lives from [`Guest::open`] until the stream under it ends, the guest breaks the protocol, or the last
//! handle is dropped. The guest is hostile: whatever it sends, the reader never waits for a consumer, memory is
//! bounded by the credit the host gave, and the first senseless frame ends the session for everybody in it.
//!
//! Sad paths: the stream ends, so every waiter gets [`LinkError::Closed`]; the guest breaks the protocol, so
//! everyone gets [`LinkError::Violation`]; no version in common, so everyone gets [`LinkError::Version`]; the
//! caller loses interest, so the stream is cancelled and its id kept until the guest's final word on it; the agent is
//! of a machine that an older agentiso started, so what it does not know yet fails with [`LinkError::OldAgent`]; the guest
//! says nothing, so the request fails with [`LinkError::Silent`] after a limit that depends on its kind (`deadline`).

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
