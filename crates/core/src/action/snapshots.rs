//! Snapshots: create, list, restore, compare and delete.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{MAX_CHANGES, MAX_DESCRIPTION, NewSnapshotName, WorkspaceReference};
use super::values::{ChangeKind, SnapshotKind, State};
use crate::SnapshotName;

/// A snapshot in a list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SnapshotBrief {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Why it was taken.
    #[serde(default = "users")]
    pub kind: SnapshotKind,
    /// Whether it includes memory.
    pub has_memory: bool,
    /// The snapshot that precedes it.
    pub parent: Option<String>,
    /// Creation time.
    pub created_at: String,
}

/// The kind of all snapshots that older daemons list.
fn users() -> SnapshotKind {
    SnapshotKind::User
}

/// Takes a snapshot.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotCreate {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Name: letters, digits, hyphens, underscores and dots, at most 128, not `now`.
    #[schemars(with = "NewSnapshotName")]
    pub name: String,
    /// Include memory, so that processes continue after a restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_memory: Option<bool>,
    /// Description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_DESCRIPTION))]
    pub description: Option<String>,
}
action! { SnapshotCreate -> SnapshotTaken {
    name: "snapshot_create",
    title: "Create a snapshot",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/snapshots"],
    tools: [Core, Full],
    effect: Changes,
    description: "Saves a workspace's disk and, with include_memory, its memory and running processes under a name. \
                  The machine pauses for some milliseconds. Only changes since the last snapshot take space.",
}}

/// A snapshot that was taken.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SnapshotTaken {
    /// Its id.
    pub snapshot_id: String,
    /// Its name.
    pub name: String,
    /// Its workspace.
    pub workspace_id: String,
    /// Whether it includes memory.
    pub has_memory: bool,
    /// Creation time.
    pub created_at: String,
    /// How long the machine was paused, in milliseconds.
    pub pause_ms: f64,
    /// Size of its memory image in bytes; null without memory.
    pub memory_bytes: Option<u64>,
}

impl Outcome for SnapshotTaken {
    fn text(&self) -> String {
        let what = if self.has_memory { "disk and memory" } else { "disk" };
        format!("created snapshot {} ({what}); the machine was paused for {:.1} ms", self.name, self.pause_ms)
    }
}

/// Restores a snapshot.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotRestore {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// The snapshot.
    #[schemars(with = "SnapshotName")]
    pub snapshot_name: String,
    /// Boot from the snapshot's disk even if it has memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disk_only: bool,
}
action! { SnapshotRestore -> SnapshotRestored {
    name: "snapshot_restore",
    title: "Restore a snapshot",
    subjects: [Workspace(workspace_id), Snapshot(snapshot_name)],
    routes: [Post "/v1/workspaces/{workspace_id}/snapshots/{snapshot_name}/restore"],
    tools: [Core, Full],
    effect: Destroys,
    flags: [idempotent],
    description: "Rolls a workspace back to one of its snapshots, in place. Later changes are lost unless another \
                  snapshot holds them; newer snapshots stay. With memory, processes continue where they were; \
                  without, the machine restarts. If it fails, the workspace is unchanged.",
}}

/// A workspace that was restored.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SnapshotRestored {
    /// The workspace.
    pub workspace_id: String,
    /// The snapshot.
    pub snapshot_name: String,
    /// Whether memory was restored too.
    pub memory_restored: bool,
    /// State of the workspace after the restore.
    pub state: State,
    /// Downtime in milliseconds.
    pub away_ms: f64,
    /// Hooks of the workspace that failed.
    pub failed_hooks: Vec<String>,
}

impl Outcome for SnapshotRestored {
    fn text(&self) -> String {
        let what = if self.memory_restored { "disk and memory" } else { "disk" };
        format!("restored snapshot {} ({what}); the workspace is {}", self.snapshot_name, self.state)
    }
}

/// Lists snapshots.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotList {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Only snapshots of this kind. Default: `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<SnapshotKind>,
}
action! { SnapshotList -> SnapshotListed {
    name: "snapshot_list",
    title: "List snapshots",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/snapshots"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Lists a workspace's snapshots, oldest first, with parent, time and sizes: used_bytes is what \
                  deleting it would free, referenced_bytes its total.",
}}

/// The snapshots of a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SnapshotListed {
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotDetails>,
}

/// A snapshot.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SnapshotDetails {
    /// The fields that every list shows.
    #[serde(flatten)]
    pub brief: SnapshotBrief,
    /// Description.
    pub description: String,
    /// Bytes that deleting it would free.
    pub used_bytes: u64,
    /// Bytes of disk and memory it refers to, shared or not.
    pub referenced_bytes: u64,
    /// Whether it is the workspace's current position.
    pub current: bool,
    /// Workspaces whose disks need it.
    pub forks: Vec<String>,
    /// Why its memory cannot be restored, if it is damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

impl Outcome for SnapshotListed {
    fn text(&self) -> String {
        if self.snapshots.is_empty() {
            return "no snapshots".to_owned();
        }
        let line = |snapshot: &SnapshotDetails| {
            let memory = if snapshot.brief.has_memory { ", with memory" } else { "" };
            let parent = snapshot.brief.parent.as_ref().map(|p| format!(", after {p}")).unwrap_or_default();
            let current = if snapshot.current { ", current" } else { "" };
            let forks = match snapshot.forks.is_empty() {
                true => String::new(),
                false => format!(", needed by {}", snapshot.forks.join(", ")),
            };
            let about = match snapshot.description.is_empty() {
                true => String::new(),
                false => format!(" ({})", snapshot.description),
            };
            let damage = snapshot.damage.as_ref();
            let damage = damage.map(|why| format!("; its memory is damaged: {why}")).unwrap_or_default();
            format!(
                "{}{about}: {}{parent}{memory}{current}, {} bytes of its own, {} in all{forks}{damage}",
                snapshot.brief.name,
                snapshot.brief.created_at,
                snapshot.used_bytes,
                snapshot.referenced_bytes
            )
        };
        self.snapshots.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Deletes a snapshot.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotDelete {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// The snapshot.
    #[schemars(with = "SnapshotName")]
    pub snapshot_name: String,
}
action! { SnapshotDelete -> SnapshotDeleted {
    name: "snapshot_delete",
    title: "Delete a snapshot",
    subjects: [Workspace(workspace_id), Snapshot(snapshot_name)],
    routes: [Delete "/v1/workspaces/{workspace_id}/snapshots/{snapshot_name}"],
    tools: [Full],
    effect: Destroys,
    description: "Deletes a snapshot, not only the newest. Refused while forks need it.",
}}

/// A snapshot that was deleted.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SnapshotDeleted {
    /// The workspace.
    pub workspace_id: String,
    /// The snapshot.
    pub snapshot_name: String,
    /// Always true: a failure is an error.
    pub deleted: bool,
}

impl Outcome for SnapshotDeleted {
    fn text(&self) -> String {
        format!("snapshot {} deleted", self.snapshot_name)
    }
}

/// Compares two points of a workspace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotDiff {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Earlier point: a snapshot.
    #[schemars(with = "SnapshotName")]
    pub snapshot_name: String,
    /// Later point: a snapshot, `now` (default), or `OTHER:NAME` of another workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
    /// Only this path and below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Show the changed lines of this file instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Maximum number of changes, up to 100000. Default: 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_CHANGES))]
    pub max_results: Option<usize>,
}
action! { SnapshotDiff -> SnapshotCompared {
    name: "snapshot_diff",
    title: "Compare snapshots",
    subjects: [Workspace(workspace_id), Point(snapshot_name), Point(other)],
    routes: [Get "/v1/workspaces/{workspace_id}/snapshots/{snapshot_name}/diff"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Lists the files added, removed, modified or renamed between a snapshot and another one or now; \
                  with file, the changed lines of that file.",
}}

/// The differences between two points.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SnapshotCompared {
    /// Files and directories that differ, sorted by path.
    pub changes: Vec<FileChange>,
    /// Number of added files and directories.
    pub added: usize,
    /// Number of removed files and directories.
    pub removed: usize,
    /// Number of modified files and directories.
    pub modified: usize,
    /// Number of renamed files and directories.
    pub renamed: usize,
    /// Number of paths that could not be read because the file system is damaged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable: usize,
    /// Whether the list is incomplete.
    pub truncated: bool,
    /// The changed lines of the requested file.
    pub diff: Option<String>,
}

/// A file that differs.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileChange {
    /// Its path.
    pub path: String,
    /// What happened to it.
    pub change: ChangeKind,
    /// What differs of a modified one: `content`, `mode`, `owner`, `type`, `xattrs`, `target`; why one is unreadable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub what: Vec<String>,
    /// Previous path of a renamed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Size at the earlier point, in bytes.
    pub old_size: Option<u64>,
    /// Size at the later point, in bytes.
    pub new_size: Option<u64>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Outcome for SnapshotCompared {
    fn text(&self) -> String {
        if let Some(diff) = &self.diff {
            return diff.clone();
        }
        let line = |change: &FileChange| {
            let mark = match change.change {
                ChangeKind::Added => "A",
                ChangeKind::Removed => "D",
                ChangeKind::Renamed => "R",
                ChangeKind::Unreadable => return format!("! {}: {}", change.path, change.what.join(", ")),
                ChangeKind::Modified => "M",
            };
            let from = change.from.as_ref().map(|from| format!("{from} -> ")).unwrap_or_default();
            format!("{mark} {from}{}", change.path)
        };
        let mut lines: Vec<String> = self.changes.iter().map(line).collect();
        lines.push(format!(
            "{} added, {} removed, {} modified, {} renamed{}{}",
            self.added,
            self.removed,
            self.modified,
            self.renamed,
            if self.unreadable > 0 {
                format!(", {} could not be read", self.unreadable)
            } else {
                String::new()
            },
            if self.truncated { "; not all are shown" } else { "" }
        ));
        lines.join("\n")
    }
}
