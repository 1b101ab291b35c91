//! The details of one workspace.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::fork::ForkedFrom;
use super::snapshots::SnapshotBrief;
use super::values::{Accel, Tier};
use super::workspace::{Forward, Size, WorkspaceBrief, ends, in_words, of_one};
use crate::NetworkRules;

of_one! {
    /// Shows a workspace's details.
    WorkspaceInfo
}
action! { WorkspaceInfo -> WorkspaceDetails {
    name: "workspace_info",
    title: "Describe a workspace",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}"],
    tools: [Standard, Full],
    effect: Reads,
    flags: [idempotent],
    description: "Returns a workspace's state, size, lineage, snapshots, port forwards, labels, times, and the names \
                  (never the values) of its variables.",
}}

/// Limits of a machine. A null value means no limit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct MachineLimits {
    /// Bytes of memory, of the guest and its QEMU.
    pub memory_bytes: Option<u64>,
    /// Bytes of it that may be swapped out besides.
    pub swap_bytes: Option<u64>,
    /// CPU time, in percent of one CPU.
    pub cpu_percent: Option<u64>,
    /// Threads of its QEMU.
    pub tasks: Option<u64>,
    /// Bytes it may read from the disk in a second.
    pub read_bytes_per_sec: Option<u64>,
    /// Bytes it may write to the disk in a second.
    pub write_bytes_per_sec: Option<u64>,
}

impl MachineLimits {
    /// The limits as one line of text.
    pub fn in_words(&self) -> String {
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        let words = [
            self.memory_bytes.map(|bytes| format!("{} of memory", mib(bytes))),
            self.cpu_percent.map(|percent| format!("{percent} % of a processor")),
            self.tasks.map(|tasks| format!("{tasks} threads")),
            self.read_bytes_per_sec.map(|bytes| format!("{} read a second", mib(bytes))),
            self.write_bytes_per_sec.map(|bytes| format!("{} written a second", mib(bytes))),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    }
}

/// The details of a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceDetails {
    /// The fields that every list shows.
    #[serde(flatten)]
    pub brief: WorkspaceBrief,
    /// Why it stopped, if that was not requested.
    pub stop_reason: Option<String>,
    /// How its machine was started.
    pub tier: Tier,
    /// How its instructions run, while it runs.
    pub accel: Option<Accel>,
    /// Process id of its QEMU, while it runs.
    pub pid: Option<u32>,
    /// Limits of its machine while it runs; null if there are none.
    #[serde(default)]
    pub limits: Option<MachineLimits>,
    /// Whether it came from the warm pool.
    pub from_pool: bool,
    /// The source of a fork.
    pub forked_from: Option<ForkedFrom>,
    /// Network rules.
    pub network: NetworkRules,
    /// Port forwards.
    pub port_forwards: Vec<Forward>,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<SnapshotBrief>,
    /// Bytes its disk layers use on the host.
    pub disk_used_bytes: u64,
    /// Size of its disk.
    pub disk_volsize_bytes: u64,
    /// The shell that runs its commands: `/bin/bash`, or `/bin/sh` in an image without bash. Null until it has run.
    #[serde(default)]
    pub shell: Option<String>,
    /// Names of the variables set with set_env; never their values.
    pub env_names: Vec<String>,
    /// When it will be destroyed automatically.
    pub expires_at: Option<String>,
    /// Seconds without a call after which it is stopped.
    pub idle_stop_secs: Option<u64>,
    /// When it was last used.
    pub last_used_at: String,
    /// Whether it starts with the daemon, unless it was stopped on purpose.
    #[serde(default)]
    pub restart: bool,
    /// Size after the next start, if different.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_resources: Option<Size>,
}

impl Outcome for WorkspaceDetails {
    fn text(&self) -> String {
        let b = &self.brief;
        let mut text = format!(
            "{} ({}): {}, image {}, {} vCPU, {} MiB memory, {} GiB disk",
            b.name,
            b.workspace_id,
            b.state,
            b.base_image,
            b.resources.vcpus,
            b.resources.memory_mb,
            b.resources.disk_gb
        );
        if let Some(shell) = &self.shell {
            let _ = write!(text, "; commands run in {shell}");
        }
        if let Some(from) = &self.forked_from {
            let _ = write!(text, "; a fork of {}", from.source_workspace_name);
        }
        if !self.snapshots.is_empty() {
            let names: Vec<&str> = self.snapshots.iter().map(|snapshot| snapshot.name.as_str()).collect();
            let _ = write!(text, "; snapshots: {}", names.join(", "));
        }
        if !self.port_forwards.is_empty() {
            let ports: Vec<String> = self.port_forwards.iter().map(Forward::in_words).collect();
            let _ = write!(text, "; ports: {}", ports.join(", "));
        }
        if !b.labels.is_empty() {
            let _ = write!(text, "; labels: {}", in_words(&b.labels));
        }
        if !self.env_names.is_empty() {
            let _ = write!(text, "; variables: {}", self.env_names.join(", "));
        }
        let _ = write!(text, "; created {}, last used {}", b.created_at, self.last_used_at);
        text.push_str(&ends(self.expires_at.as_deref(), self.idle_stop_secs));
        if let Some(limits) = &self.limits {
            let _ = write!(text, "; its host allows {}", limits.in_words());
        }
        if let Some(reason) = &self.stop_reason {
            let _ = write!(text, "; it stopped because {reason}");
        }
        text
    }
}
