//! Forks of workspaces.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{IdempotencyKey, MAX_FORKS, NamePrefix, WorkspaceReference};
use super::values::State;
use crate::{Code, NetworkChange, Secret, SnapshotName, WorkspaceName};

/// The source of a fork.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ForkedFrom {
    /// Id of the source, which may no longer exist.
    pub source_workspace_id: String,
    /// The source's name at that time.
    pub source_workspace_name: String,
    /// The snapshot; null for a fork of a running workspace.
    pub snapshot_name: Option<String>,
    /// When it was forked.
    pub forked_at: String,
    /// Number of forks from the first workspace of the line to this one.
    pub depth: u32,
}

/// Forks a workspace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {"required": ["new_name", "name_prefix"]}, "dependentSchemas" = {"new_name": {"properties": {"count": {"maximum": 1}}}}, "if" = {"properties": {"disk_only": {"const": true}}, "required": ["disk_only"]}, "then" = {"required": ["snapshot_name"]}))]
pub struct WorkspaceFork {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Snapshot to fork. Default: the workspace as it is now, with its running processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SnapshotName>")]
    pub snapshot_name: Option<String>,
    /// Name of a single fork. Default: generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WorkspaceName>")]
    pub new_name: Option<String>,
    /// How many forks, 1 to 100; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_FORKS))]
    pub count: Option<u32>,
    /// Name prefix of several forks: `PREFIX-1`, `PREFIX-2`, ... Default: `worker`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<NamePrefix>")]
    pub name_prefix: Option<String>,
    /// Create none if one fails. Default: create what is possible and report the rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_or_nothing: bool,
    /// Boot the forks from the snapshot's disk, without its memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disk_only: bool,
    /// Changes of the network rules, as for network_policy. Default: the rules of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkChange>,
    /// Let the forks use the secrets of the source, with placeholders of their own. Only the operator may ask for this.
    /// Default: the forks have no secrets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secrets: bool,
    /// Idempotency key. Repeating the call with the same key within 24 hours returns the first result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<IdempotencyKey>")]
    pub idempotency_key: Option<Secret<String>>,
}
action! { WorkspaceFork -> WorkspaceForked {
    name: "workspace_fork",
    title: "Fork a workspace",
    subjects: [Workspace(workspace_id), Snapshot(snapshot_name)],
    routes: [Post "/v1/workspaces/{workspace_id}/fork"],
    tools: [Standard, Full],
    effect: Changes,
    rate: Create,
    flags: [long_running],
    description: "Copies a workspace: a snapshot or, without snapshot_name, the running machine with its memory and processes. The source keeps running. Forks run with \
                  memory of their own and get the source's size, image, variables and network rules, but not its \
                  snapshots, port forwards or secrets.",
}}

/// The result of a fork.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceForked {
    /// Id of the fork, if only one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// Name of a single fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// State of a single fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// IP address; absent without a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// The workspace or snapshot that was forked.
    pub forked_from: ForkedFrom,
    /// Number of forks requested.
    pub requested_count: u32,
    /// Number of forks created.
    pub success_count: u32,
    /// Number of forks that failed.
    pub failure_count: u32,
    /// The forks that were created.
    pub workers: Vec<Worker>,
    /// The forks that could not be created, and why.
    pub failures: Vec<ForkFailure>,
    /// Pause of the source in milliseconds.
    pub source_pause_ms: f64,
    /// Duration in milliseconds.
    pub took_ms: u64,
}

/// A fork that was created.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Worker {
    /// Its id.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// IP address; null without a network.
    pub ip: Option<String>,
}

/// A fork that could not be created.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ForkFailure {
    /// Index, starting at 1.
    pub index: u32,
    /// The name it would have had.
    pub name: String,
    /// Stable code of the failure.
    pub code: Code,
    /// The reason.
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
