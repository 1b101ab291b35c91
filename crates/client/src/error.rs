//! What can go wrong between a client and the daemon.

use std::path::Path;

use agentiso_core::{Code, Failure};

/// Nobody listens at the socket.
pub(crate) fn unreachable(socket: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot connect to the daemon at {}: {error}", socket.display());
    Failure::new(Code::DaemonUnavailable, message).with_remedy("agentiso daemon start")
}

/// The connection broke, so nobody knows whether the request was carried out.
pub(crate) fn broken(error: impl std::error::Error) -> Failure {
    lost(&format!("the connection to the daemon broke: {}", agentiso_core::chain(&error)))
}

/// The daemon stopped answering, so nobody knows whether the request was carried out.
pub(crate) fn lost(message: &str) -> Failure {
    Failure::new(Code::DaemonUnavailable, message).with_remedy(
        "check the state of the workspace before you retry; agentiso daemon status shows the log file",
    )
}

/// The daemon answered something that is not in the protocol.
pub(crate) fn unintelligible(why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::DaemonUnavailable, format!("the daemon's answer could not be read: {why}"))
        .with_remedy("the daemon may be of another version: agentiso daemon restart")
}

/// The request cannot be written as JSON.
pub(crate) fn unwritable(error: &serde_json::Error) -> Failure {
    Failure::new(Code::Internal, format!("the request could not be written: {error}"))
}
