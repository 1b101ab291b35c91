//! Failures between a client and the daemon.

use std::path::Path;

use agentiso_core::{Code, Failure};

/// Nothing listens at the socket.
pub(crate) fn unreachable(socket: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot connect to the daemon at {}: {error}", socket.display());
    Failure::new(Code::DaemonUnavailable, message).with_remedy("agentiso daemon start")
}

/// The connection broke, so it is unknown whether the request was performed.
pub(crate) fn broken(error: impl std::error::Error) -> Failure {
    lost(&format!("the connection to the daemon broke: {}", agentiso_core::chain(&error)))
}

/// The daemon stopped answering, so it is unknown whether the request was performed.
pub(crate) fn lost(message: &str) -> Failure {
    Failure::new(Code::DaemonUnavailable, message).with_remedy(
        "check the state of the workspace before you retry; agentiso daemon status shows the log file",
    )
}

/// The daemon sent something that is not in the protocol.
pub(crate) fn unintelligible(why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::DaemonUnavailable, format!("the daemon's response could not be read: {why}"))
        .with_remedy("the daemon may be of another version: agentiso daemon restart")
}

/// The request cannot be written as JSON.
pub(crate) fn unwritable(error: &serde_json::Error) -> Failure {
    Failure::new(Code::Internal, format!("the request could not be written: {error}"))
}
