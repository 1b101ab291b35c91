//! The timeline and the status of the server.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{MAX_EVENTS, WorkspaceReference};

/// Shows the timeline.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// Id or name of a workspace, also of a destroyed one. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WorkspaceReference>")]
    pub workspace_id: Option<String>,
    /// Number of newest events, up to 1000. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_EVENTS))]
    pub limit: Option<u32>,
    /// Only events before this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// Omit successful calls that only read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_only: bool,
}

action! { Timeline -> TimelineShown {
    name: "timeline",
    title: "Show what has happened",
    subjects: [Past(workspace_id)],
    routes: [Get "/v1/timeline", Get "/v1/workspaces/{workspace_id}/timeline"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Shows what was done to a workspace, or to all, by any client, newest first: who, what (without \
                  secrets), when, how long it took, how it ended and what it changed.",
}}

/// A page of the timeline.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TimelineShown {
    /// The events, newest first.
    pub events: Vec<TimelineEvent>,
}

/// A call in the timeline.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TimelineEvent {
    /// Its number; later calls have higher numbers.
    pub id: i64,
    /// Start time.
    pub at: String,
    /// The workspace's id.
    pub workspace_id: Option<String>,
    /// The workspace's name at that time.
    pub workspace_name: Option<String>,
    /// Name of the client.
    pub client: String,
    /// Name of the action.
    pub action: String,
    /// Its parameters, without secrets and contents.
    pub detail: serde_json::Value,
    /// Duration in milliseconds.
    pub duration_ms: f64,
    /// `ok`, a stable error code, `running`, or `interrupted` if the daemon ended first.
    pub outcome: String,
    /// What it changed.
    pub changed: Option<String>,
}

/// The parameters that best tell what a call was about, most specific first.
const SUBJECTS: [&str; 12] = [
    "command",
    "argv",
    "path",
    "source",
    "pattern",
    "guest_path",
    "url",
    "snapshot_name",
    "new_name",
    "name",
    "guest_port",
    "reason",
];

impl TimelineEvent {
    /// The parameter that best tells what the call was about: the command, the path or the snapshot.
    pub fn subject(&self) -> Option<String> {
        let telling =
            SUBJECTS.iter().find_map(|name| self.detail.get(name).filter(|value| !value.is_null()))?;
        match telling {
            serde_json::Value::String(text) => Some(text.clone()),
            serde_json::Value::Array(words) => {
                let words = words.iter().map(|word| match word {
                    serde_json::Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
                Some(words.collect::<Vec<_>>().join(" "))
            }
            other => Some(other.to_string()),
        }
    }
}

impl Outcome for TimelineShown {
    fn text(&self) -> String {
        let line = |event: &TimelineEvent| {
            let subject = event.subject().map(|subject| format!(" `{subject}`")).unwrap_or_default();
            let workspace = event.workspace_name.as_deref().unwrap_or("-");
            let changed = event.changed.as_ref().map(|changed| format!(": {changed}")).unwrap_or_default();
            format!(
                "{} {workspace} {}{subject} by {} ({:.0} ms) {}{changed}",
                event.at, event.action, event.client, event.duration_ms, event.outcome
            )
        };
        self.events.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Shows server status.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServerStatus {}
action! { ServerStatus -> ServerState {
    name: "server_status",
    title: "Show server status",
    subjects: [],
    routes: [Get "/v1/status"],
    tools: [Standard, Full],
    effect: Reads,
    flags: [idempotent],
    description: "Returns the server's version and uptime, the number of workspaces by state, and this session's \
                  quota and usage.",
}}

/// Server status.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ServerState {
    /// Version of the server.
    pub version: String,
    /// Process id of the server.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_secs: u64,
    /// Data directory.
    pub home: String,
    /// The configuration file it read, or would have read.
    #[serde(default)]
    pub config: String,
    /// Workspaces per state.
    pub workspaces: BTreeMap<String, usize>,
    /// Machines in the warm pool.
    pub pool: usize,
    /// Number of machines that the pool should have.
    #[serde(default)]
    pub pool_wanted: usize,
    /// The reason for that number.
    #[serde(default)]
    pub pool_why: String,
    /// This session's id.
    pub session_id: Option<String>,
    /// What this session uses.
    pub usage: QuotaUse,
    /// What this session may use.
    pub quota: QuotaUse,
}

/// Amounts that are used, or that are the limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct QuotaUse {
    /// Workspaces.
    pub workspaces: u64,
    /// Memory of all of them in MiB.
    pub memory_mb: u64,
    /// Disks of all of them in GiB.
    pub disk_gb: u64,
    /// Snapshots of all of them.
    pub snapshots: u64,
}

impl Outcome for ServerState {
    fn text(&self) -> String {
        let states: Vec<String> =
            self.workspaces.iter().map(|(state, count)| format!("{count} {state}")).collect();
        format!(
            "agentiso {} (process {}), up {} s; workspaces: {}; this session uses {} of {} workspaces, {} of {} MiB",
            self.version,
            self.pid,
            self.uptime_secs,
            if states.is_empty() { "none".to_owned() } else { states.join(", ") },
            self.usage.workspaces,
            self.quota.workspaces,
            self.usage.memory_mb,
            self.quota.memory_mb
        )
    }
}
