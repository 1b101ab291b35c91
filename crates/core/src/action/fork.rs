//! Forks of workspaces.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};

/// Where a fork came from.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ForkedFrom {
    /// The source, which may be gone by now.
    pub source_workspace_id: String,
    /// What the source was called then.
    pub source_workspace_name: String,
    /// The snapshot; null if the source was forked as it ran.
    pub snapshot_name: Option<String>,
    /// When.
    pub forked_at: String,
    /// How many forks lie between it and a workspace that is none.
    pub depth: u32,
}

/// Forks a workspace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceFork {
    /// Id or name.
    pub workspace_id: String,
    /// The snapshot to fork. If absent the workspace is forked as it is now, running processes and all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_name: Option<String>,
    /// Name of a single fork; made up if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// How many forks, 1 to 100; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// What the names of several begin with: `PREFIX-1`, `PREFIX-2`, ... `worker` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// If one cannot be made, makes none; else those that can be are made and the others reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_or_nothing: bool,
    /// Starts the forks anew on the snapshot's disk, without its memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disk_only: bool,
    /// Idempotency key: repeating the call with the same key within 24 hours returns the first result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}
action!(WorkspaceFork [Snapshot(snapshot_name)] -> WorkspaceForked, "workspace_fork", "Fork a workspace", Changes, Create;
    "Makes independent copies of a workspace: from a snapshot, or, with no snapshot_name, of the running machine as \
     it is now with its memory and processes. The source goes on. Forks run at once and each uses memory of its own; \
     they have the source's size, image and variables, but not its snapshots or port forwards.");

/// Forks that were made.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceForked {
    /// The fork, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Its address; absent while it has no network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Where they came from.
    pub forked_from: ForkedFrom,
    /// How many were asked for.
    pub requested_count: u32,
    /// How many were made.
    pub success_count: u32,
    /// How many could not be made.
    pub failure_count: u32,
    /// Those that were made.
    pub workers: Vec<Worker>,
    /// Those that could not be made.
    pub failures: Vec<ForkFailure>,
    /// For how long the source stood still.
    pub source_pause_ms: f64,
    /// How long the whole took.
    pub took_ms: u64,
}

/// A fork that was made.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Worker {
    /// Its id.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// Its address; null while it has no network.
    pub ip: Option<String>,
}

/// A fork that could not be made.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ForkFailure {
    /// Which of them, from 1.
    pub index: u32,
    /// What it was to be called.
    pub name: String,
    /// Stable code of the failure.
    pub code: String,
    /// Why.
    pub error: String,
}

impl Outcome for WorkspaceForked {
    fn text(&self) -> String {
        let names: Vec<&str> = self.workers.iter().map(|worker| worker.name.as_str()).collect();
        let mut text = format!(
            "{} of {} forks of {} made in {} ms: {}",
            self.success_count,
            self.requested_count,
            self.forked_from.source_workspace_name,
            self.took_ms,
            names.join(", ")
        );
        for failure in &self.failures {
            let _ = write!(text, "\n{} failed: {}", failure.name, failure.error);
        }
        text
    }
}
