//! Settings of a workspace: labels, time to live, idle timeout, and its size after the next start.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{MAX_LIFETIME_SECS, WorkspaceReference};
use super::workspace::{Size, ends, in_words};
use crate::{LabelChanges, MIN_MEMORY_MB};

/// Changes the settings of a workspace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceUpdate {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Labels to set; null removes a label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "LabelChanges")]
    pub labels: BTreeMap<String, Option<String>>,
    /// Destroy it this many seconds from now; 0 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_LIFETIME_SECS))]
    pub ttl_secs: Option<u64>,
    /// Stop it after this many seconds without a call; 0 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_LIFETIME_SECS))]
    pub idle_stop_secs: Option<u64>,
    /// Virtual CPUs after the next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub vcpus: Option<u32>,
    /// Memory in MiB after the next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_MEMORY_MB))]
    pub memory_mb: Option<u32>,
    /// Whether to start it with the daemon, unless it was stopped on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<bool>,
}
action! { WorkspaceUpdate -> WorkspaceUpdated {
    name: "workspace_update",
    title: "Change labels, times and size",
    subjects: [Workspace(workspace_id)],
    routes: [Patch "/v1/workspaces/{workspace_id}"],
    tools: [Full],
    effect: Changes,
    flags: [idempotent],
    description: "Changes a workspace's labels, time to live, idle timeout, and its CPUs and memory after the next \
                  start (at once if it is stopped). Omitted values stay.",
}}

/// The settings of a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceUpdated {
    /// Its id.
    pub workspace_id: String,
    /// Labels as names and values.
    pub labels: BTreeMap<String, String>,
    /// When it will be destroyed automatically.
    pub expires_at: Option<String>,
    /// Seconds without a call after which it is stopped.
    pub idle_stop_secs: Option<u64>,
    /// Whether it starts with the daemon, unless it was stopped on purpose.
    #[serde(default)]
    pub restart: bool,
    /// Size after the next start, if different.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_resources: Option<Size>,
}

impl Outcome for WorkspaceUpdated {
    fn text(&self) -> String {
        let ends = ends(self.expires_at.as_deref(), self.idle_stop_secs);
        let size = self.next_resources.map(|next| {
            format!("; from its next start on it has {} vCPU and {} MiB memory", next.vcpus, next.memory_mb)
        });
        let (labels, size) = (in_words(&self.labels), size.unwrap_or_default());
        format!("workspace {} updated; labels: {labels}{ends}{size}", self.workspace_id)
    }
}
