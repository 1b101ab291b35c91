//! Resource usage of running workspaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};

/// Shows the resource usage of running workspaces.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceStats {}
action! { WorkspaceStats -> WorkspaceStatistics {
    name: "workspace_stats",
    title: "Show resource usage",
    subjects: [],
    routes: [Get "/v1/stats"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Returns CPU, memory and disk use of every running workspace. Rates are averages since the last \
                  sample, normally two seconds ago.",
}}

/// The resource usage of running workspaces.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceStatistics {
    /// When it was measured.
    pub sampled_at: String,
    /// The running workspaces, oldest first.
    pub workspaces: Vec<WorkspaceUse>,
}

/// The resource usage of a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceUse {
    /// Its id.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// Process id of its QEMU.
    pub pid: u32,
    /// CPU use since the last sample, in percent of one CPU; null in a machine's first sample.
    pub cpu_percent: Option<f64>,
    /// CPU time since its machine started, in milliseconds.
    pub cpu_ms: u64,
    /// Host memory that stopping it would free, in bytes.
    pub memory_bytes: u64,
    /// Memory size in bytes.
    pub memory_size_bytes: u64,
    /// Bytes read from the host's disks since its machine started; null where the host does not tell.
    pub read_bytes: Option<u64>,
    /// Bytes written to the host's disks since its machine started.
    pub write_bytes: Option<u64>,
    /// Bytes read in a second.
    pub read_bytes_per_sec: Option<u64>,
    /// Bytes written in a second.
    pub write_bytes_per_sec: Option<u64>,
    /// Bytes its disk layers use on the host.
    pub disk_used_bytes: u64,
}

impl Outcome for WorkspaceStatistics {
    fn text(&self) -> String {
        if self.workspaces.is_empty() {
            return "no running workspaces".to_owned();
        }
        let line = |one: &WorkspaceUse| {
            let cpu = one.cpu_percent.map_or("-".to_owned(), |percent| format!("{percent:.0}"));
            let (own, size) = (one.memory_bytes >> 20, one.memory_size_bytes >> 20);
            format!("{}: {cpu} % of a processor, {own} of {size} MiB memory", one.name)
        };
        self.workspaces.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
