//! Events of workspaces and background commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that happened to a workspace.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceEvent {
    /// What happened.
    pub kind: EventKind,
    /// Id of the workspace.
    pub workspace_id: String,
    /// Name of the workspace at that time.
    pub name: String,
    /// When it happened, in RFC 3339.
    pub at: String,
    /// The cause, if it was not a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What happened to a workspace.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// It was created.
    Created,
    /// It runs.
    Started,
    /// It was stopped.
    Stopped,
    /// Its machine ended unexpectedly.
    Crashed,
    /// It was suspended.
    Suspended,
    /// It was restored from a snapshot.
    Restored,
    /// A snapshot was taken.
    Snapshot,
    /// It was renamed.
    Renamed,
    /// It was destroyed.
    Destroyed,
    /// It was refused a destination on the network. Sent once a minute at most for the same destination.
    NetworkRefused,
    /// Its network rules changed.
    NetworkChanged,
    /// It raised a request for approval.
    ApprovalRequested,
    /// A request of it was granted.
    ApprovalGranted,
    /// A request of it was denied, or a grant revoked.
    ApprovalDenied,
    /// A request of it expired, or a grant for once is over.
    ApprovalExpired,
}

impl EventKind {
    /// The kind as it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Crashed => "crashed",
            Self::Suspended => "suspended",
            Self::Restored => "restored",
            Self::Snapshot => "snapshot",
            Self::Renamed => "renamed",
            Self::Destroyed => "destroyed",
            Self::NetworkRefused => "network_refused",
            Self::NetworkChanged => "network_changed",
            Self::ApprovalRequested => "approval_requested",
            Self::ApprovalGranted => "approval_granted",
            Self::ApprovalDenied => "approval_denied",
            Self::ApprovalExpired => "approval_expired",
        }
    }
}

/// What a background command printed since the last event.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct JobOutput {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}
