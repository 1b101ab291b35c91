//! Workspaces: create, start, stop, list, rename and destroy.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{IdempotencyKey, MAX_LIFETIME_SECS, MAX_LOG_LINES, WorkspaceReference};
use super::values::{Accel, LogType, State, Tier};
use crate::{ImageName, Labels, MIN_MEMORY_MB, NetworkChange, Secret, WorkspaceName};

/// The size of a workspace.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Size {
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u32,
    /// Size of the root file system in GiB.
    pub disk_gb: u32,
}

/// A workspace in a list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceBrief {
    /// Permanent id.
    pub workspace_id: String,
    /// Name; accepted wherever an id is.
    pub name: String,
    /// Whether it runs, is stopped or is suspended.
    pub state: State,
    /// IP address; null without a network.
    pub ip: Option<String>,
    /// Whether this session owns it.
    pub owned: bool,
    /// The image it was created from.
    pub base_image: String,
    /// CPUs, memory and disk.
    pub resources: Size,
    /// Creation time.
    pub created_at: String,
    /// Labels as names and values.
    pub labels: BTreeMap<String, String>,
    /// What it is a fork of: a workspace, or `workspace@snapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Id of the workspace it is a fork of, which may no longer exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<String>,
}

/// A port of the host that is forwarded to a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Forward {
    /// Port on 127.0.0.1 of the host.
    pub host_port: u16,
    /// Port in the workspace.
    pub guest_port: u16,
    /// Id of the workspace whose port it is, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl Forward {
    /// The forward as one line of text.
    pub fn in_words(&self) -> String {
        let to = self.to.as_ref().map(|to| format!(" of {to}")).unwrap_or_default();
        format!("127.0.0.1:{} -> {}{to}", self.host_port, self.guest_port)
    }
}

/// Labels as one line of text.
pub(super) fn in_words(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

/// When a workspace is destroyed or stopped automatically, as the end of a sentence.
pub(super) fn ends(expires_at: Option<&str>, idle_stop_secs: Option<u64>) -> String {
    let expires = expires_at.map(|at| format!("; destroyed at {at}")).unwrap_or_default();
    let idle = idle_stop_secs.map(|seconds| format!("; stopped after {seconds} s without a call"));
    expires + &idle.unwrap_or_default()
}

/// Creates a workspace and starts it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceCreate {
    /// Name and host name: letters, digits and hyphens, at most 63. Default: generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WorkspaceName>")]
    pub name: Option<String>,
    /// Image. Default: from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ImageName>")]
    pub base_image: Option<String>,
    /// Virtual CPUs. Default: from the configuration, else 2 under KVM and 1 under emulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub vcpus: Option<u32>,
    /// Memory in MiB. Default: from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_MEMORY_MB))]
    pub memory_mb: Option<u32>,
    /// Root file system in GiB. Default: from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub disk_gb: Option<u32>,
    /// Allow the internet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_internet: Option<bool>,
    /// Further network rules, as for network_policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkChange>,
    /// Up to 32 labels; keys of lower-case letters, digits and `._/-`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Labels")]
    pub labels: BTreeMap<String, String>,
    /// Destroy it after this many seconds. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_LIFETIME_SECS))]
    pub ttl_secs: Option<u64>,
    /// Stop it after this many seconds without a call. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_LIFETIME_SECS))]
    pub idle_stop_secs: Option<u64>,
    /// Boots a kernel instead of cloning a template.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold: bool,
    /// Do not take a machine from the warm pool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_pool: bool,
    /// Idempotency key. Repeating the call with the same key within 24 hours returns the first result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<IdempotencyKey>")]
    pub idempotency_key: Option<Secret<String>>,
}

/// A workspace that was created.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceCreated {
    /// Id for all other calls; the name works too.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// Whether it runs, is stopped or is suspended.
    pub state: State,
    /// IP address; null without a network.
    pub ip: Option<String>,
    /// Duration in milliseconds.
    pub boot_time_ms: u64,
    /// Whether it came from the warm pool.
    pub from_pool: bool,
    /// How the machine was started.
    pub tier: Tier,
    /// How the guest's instructions are executed.
    pub accel: Option<Accel>,
    /// The image it was created from.
    pub base_image: String,
    /// CPUs, memory and disk.
    pub resources: Size,
    /// When it will be destroyed automatically.
    pub expires_at: Option<String>,
}

impl Outcome for WorkspaceCreated {
    fn text(&self) -> String {
        format!(
            "created {} ({}), running {} after {} ms ({}): {} vCPU, {} MiB memory, {} GiB disk{}",
            self.name,
            self.workspace_id,
            self.base_image,
            self.boot_time_ms,
            self.tier,
            self.resources.vcpus,
            self.resources.memory_mb,
            self.resources.disk_gb,
            ends(self.expires_at.as_deref(), None)
        )
    }
}

action! { WorkspaceCreate -> WorkspaceCreated {
    name: "workspace_create",
    title: "Create a workspace",
    subjects: [],
    routes: [Post "/v1/workspaces"],
    tools: [Core, Standard, Full],
    effect: Changes,
    rate: Create,
    flags: [long_running],
    description: "Creates an isolated Linux virtual machine and starts it. Other calls take the returned \
                  workspace_id or the name. It keeps running and using memory until it is stopped or destroyed.",
}}

/// Declares an action whose only parameter is a workspace.
macro_rules! of_one {
    ($(#[$doc:meta])* $action:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
        #[serde(deny_unknown_fields)]
        pub struct $action {
            /// Id or name.
            #[schemars(with = "crate::action::forms::WorkspaceReference")]
            pub workspace_id: String,
        }
    };
}
pub(crate) use of_one;

of_one! {
    /// Destroys a workspace.
    WorkspaceDestroy
}
action! { WorkspaceDestroy -> WorkspaceDestroyed {
    name: "workspace_destroy",
    title: "Destroy a workspace",
    subjects: [Removed(workspace_id)],
    routes: [Delete "/v1/workspaces/{workspace_id}"],
    tools: [Core, Standard, Full],
    effect: Destroys,
    description: "Destroys a workspace, running or not, with its disk and snapshots, for good. Its forks are not \
                  affected.",
}}

/// A workspace that was destroyed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceDestroyed {
    /// Its id.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// Always true: a failure is an error.
    pub destroyed: bool,
}

impl Outcome for WorkspaceDestroyed {
    fn text(&self) -> String {
        format!("workspace {} ({}) destroyed", self.name, self.workspace_id)
    }
}

/// The state of a workspace after a change.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceStateNow {
    /// Its id.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// Whether it runs, is stopped or is suspended.
    pub state: State,
    /// IP address; null without a network.
    pub ip: Option<String>,
    /// Duration in milliseconds.
    pub took_ms: u64,
    /// A remark on the result, such as that nothing had to be done.
    pub note: Option<String>,
}

impl Outcome for WorkspaceStateNow {
    fn text(&self) -> String {
        let note = self.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        format!("workspace {} is {}{note}", self.name, self.state)
    }
}

of_one! {
    /// Starts a workspace.
    WorkspaceStart
}
action! { WorkspaceStart -> WorkspaceStateNow {
    name: "workspace_start",
    title: "Start a workspace",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/start"],
    tools: [Standard, Full],
    effect: Changes,
    rate: Create,
    flags: [idempotent],
    description: "Starts a stopped workspace from its disk, or resumes a suspended one. Does nothing if it is \
                  running. Variables of set_env and port forwards come back; background jobs do not.",
}}

/// Stops a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceStop {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Kill the machine instead of shutting it down; unsynced writes are lost. Discards the memory of a suspended one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Seconds to wait for a clean shutdown before it is killed. Default: from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
}
action! { WorkspaceStop -> WorkspaceStateNow {
    name: "workspace_stop",
    title: "Stop a workspace",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/stop"],
    tools: [Standard, Full],
    effect: Changes,
    flags: [idempotent],
    description: "Shuts a workspace down: its processes end and its memory is freed; disk and snapshots stay. \
                  workspace_start starts it again.",
}}

of_one! {
    /// Suspends a workspace.
    WorkspaceSuspend
}
action! { WorkspaceSuspend -> WorkspaceStateNow {
    name: "workspace_suspend",
    title: "Suspend a workspace",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/suspend"],
    tools: [Standard, Full],
    effect: Changes,
    flags: [idempotent],
    description: "Saves a running workspace's memory to disk and ends its machine, so that it uses no memory or CPU. \
                  workspace_resume continues its processes where they were, even after a restart of the host.",
}}

of_one! {
    /// Resumes a suspended workspace.
    WorkspaceResume
}
action! { WorkspaceResume -> WorkspaceStateNow {
    name: "workspace_resume",
    title: "Resume a workspace",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/resume"],
    tools: [Standard, Full],
    effect: Changes,
    rate: Create,
    flags: [idempotent],
    description: "Continues a suspended workspace where it was. Does nothing if it is running.",
}}

/// Lists workspaces.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceList {
    /// Only workspaces in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_filter: Option<State>,
    /// Only workspaces with all these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Only workspaces this session owns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owned: bool,
}
action! { WorkspaceList -> WorkspaceListed {
    name: "workspace_list",
    title: "List workspaces",
    subjects: [],
    routes: [Get "/v1/workspaces"],
    tools: [Standard, Full],
    effect: Reads,
    flags: [idempotent],
    description: "Lists workspaces, oldest first; `owned` marks this session's. A workspace without an owner can be \
                  used at once and then belongs to this session.",
}}

/// Workspaces.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceListed {
    /// The workspaces that match, oldest first.
    pub workspaces: Vec<WorkspaceBrief>,
    /// The number of workspaces in the list.
    pub count: usize,
}

impl Outcome for WorkspaceListed {
    fn text(&self) -> String {
        if self.workspaces.is_empty() {
            return "no workspaces".to_owned();
        }
        let line = |w: &WorkspaceBrief| {
            let owned = if w.owned { "" } else { ", not this session's" };
            let labels =
                if w.labels.is_empty() { String::new() } else { format!(", {}", in_words(&w.labels)) };
            let source = w.source.as_ref().map(|source| format!(", fork of {source}")).unwrap_or_default();
            format!(
                "{} ({}): {}, image {}, created {}{source}{labels}{owned}",
                w.name, w.workspace_id, w.state, w.base_image, w.created_at
            )
        };
        self.workspaces.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Shows the logs of a machine.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceLogs {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// `console`, `stderr` (QEMU's messages) or `all` (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_type: Option<LogType>,
    /// Number of last lines of each, at most 10000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_LOG_LINES))]
    pub max_lines: Option<u32>,
}
action! { WorkspaceLogs -> WorkspaceLogged {
    name: "workspace_logs",
    title: "Show a workspace's console",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/logs"],
    tools: [Standard, Full],
    effect: Reads,
    flags: [idempotent],
    description: "Returns the last lines of a machine's serial console and of QEMU's messages, for a machine that \
                  does not start or has crashed. Does not contain the output of commands.",
}}

/// The logs of a machine.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceLogged {
    /// The end of the serial console.
    pub console: Option<String>,
    /// The end of QEMU's own messages.
    pub stderr: Option<String>,
}

impl Outcome for WorkspaceLogged {
    fn text(&self) -> String {
        let part = |name: &str, text: &Option<String>| {
            text.as_ref().map(|text| format!("--- {name} ---\n{text}")).unwrap_or_default()
        };
        format!("{}{}", part("console", &self.console), part("stderr", &self.stderr))
    }
}

/// Renames a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRename {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Its new name, which must be free.
    #[schemars(with = "WorkspaceName")]
    pub new_name: String,
}
action! { WorkspaceRename -> WorkspaceStateNow {
    name: "workspace_rename",
    title: "Rename a workspace",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/rename"],
    tools: [Full],
    effect: Changes,
    flags: [idempotent],
    description: "Renames a workspace, and its host name at once if it runs. Its id stays.",
}}

/// Gives a workspace a larger disk.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceGrow {
    /// Id or name of the workspace, which must run.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// New size of the disk in GiB, at least the present size.
    #[schemars(range(min = 1))]
    pub disk_gb: u32,
}
action! { WorkspaceGrow -> WorkspaceStateNow {
    name: "workspace_grow",
    title: "Give a workspace a larger disk",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/grow"],
    tools: [Full],
    effect: Changes,
    flags: [idempotent],
    description: "Grows the disk and root file system of a running workspace without a restart. Snapshots keep their \
                  size: restoring an earlier one brings the smaller disk back.",
}}
