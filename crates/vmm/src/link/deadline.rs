//! Time limits for the guest's answers.
//!
//! A guest can be stuck, or refuse to answer on purpose. So every wait for it is limited: each kind of request has a
//! maximum silence, after which it fails with [`LinkError::Silent`]. The total is not limited: a transfer may take as
//! long as it makes progress. Running commands and open connections have no limit here; their callers decide.

use std::time::Duration;

use agentiso_proto::Request;

use super::LinkError;

/// For immediate requests, and between two pieces of a transfer.
pub(super) const ANSWER: Duration = Duration::from_secs(60);
/// For requests whose work depends on the guest's file systems, or that wait for other processes.
pub(super) const WORK: Duration = Duration::from_secs(600);

/// How long the guest may be silent about a request.
pub(super) fn silence(request: &Request) -> Duration {
    match request {
        Request::Configure(_)
        | Request::Wake(_)
        | Request::Hold { .. }
        | Request::Freeze
        | Request::Sync
        | Request::Grow
        | Request::PowerOff
        | Request::Remove { .. }
        | Request::Find(_)
        | Request::Grep(_) => WORK,
        Request::ReadJob(read) => ANSWER + Duration::from_millis(u64::from(read.wait_ms)),
        _ => ANSWER,
    }
}

/// Waits for the guest with a time limit. `doing` completes "the guest did not answer while ...".
pub(super) async fn within<T>(
    limit: Duration,
    doing: &'static str,
    work: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(LinkError::Silent { doing, limit }))
}

/// Describes a request, for error messages.
pub(super) fn doing(request: &Request) -> &'static str {
    match request {
        Request::Exec(_) => "starting a command",
        Request::Stat { .. } => "looking at a file",
        Request::List { .. } => "listing a directory",
        Request::ReadFile { .. } => "reading a file",
        Request::WriteFile { .. } => "writing a file",
        Request::Remove { .. } => "removing a file",
        Request::Rename { .. } => "renaming a file",
        Request::Mkdir { .. } => "making a directory",
        Request::Chmod { .. } => "changing permissions",
        Request::SendTree { .. } => "sending a directory",
        Request::ReceiveTree { .. } => "receiving a directory",
        Request::Find(_) | Request::Grep(_) => "searching files",
        Request::StartJob(_) => "starting a job",
        Request::ListJobs => "listing its jobs",
        Request::ReadJob(_) => "reading a job's output",
        Request::WriteJob { .. } => "taking a job's input (a job may not be reading it)",
        Request::SignalJob { .. } | Request::ForgetJob { .. } => "controlling a job",
        Request::SetEnv { .. } | Request::GetEnv => "handling variables",
        Request::Connect { .. } | Request::ConnectTo { .. } => "connecting to a port",
        Request::PowerOff => "powering off",
        Request::Freeze | Request::Thaw | Request::Hold { .. } | Request::Release => "holding its processes",
        Request::Configure(_) | Request::Wake(_) => "taking its identity",
        _ => "answering a request",
    }
}
