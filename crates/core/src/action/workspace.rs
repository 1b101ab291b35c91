//! Workspaces: made, started, stopped, found, forked and removed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::fork::ForkedFrom;
use super::values::State;

/// A size.
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
    /// Its state.
    pub state: State,
    /// IP address; null without a network.
    pub ip: Option<String>,
    /// Whether this session owns it.
    pub owned: bool,
    /// Its image.
    pub base_image: String,
    /// Its size.
    pub resources: Size,
    /// Creation time.
    pub created_at: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it is a fork of: a workspace, or `workspace@snapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Id of the workspace it is a fork of, which may no longer exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<String>,
}

/// What a workspace may do on a network.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NetworkRules {
    /// Whether it can reach the internet.
    pub allow_internet: bool,
    /// Whether it can reach other workspaces.
    pub allow_inter_vm: bool,
    /// TCP ports others may connect to.
    pub allowed_ports: Vec<u16>,
}

/// A port of this machine that leads into a workspace.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Forward {
    /// Port on 127.0.0.1 of the host.
    pub host_port: u16,
    /// Port in the workspace.
    pub guest_port: u16,
}

impl Forward {
    /// In one line.
    pub fn in_words(&self) -> String {
        format!("127.0.0.1:{} -> {}", self.host_port, self.guest_port)
    }
}

/// Labels in one line.
pub(super) fn in_words(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

/// When a workspace is destroyed or stopped by itself, if it is.
pub(super) fn ends(expires_at: Option<&str>, idle_stop_secs: Option<u64>) -> String {
    let expires = expires_at.map(|at| format!("; destroyed at {at}")).unwrap_or_default();
    let idle = idle_stop_secs.map(|seconds| format!("; stopped after {seconds} s without a call"));
    expires + &idle.unwrap_or_default()
}

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
    /// In one line.
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

/// All about a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceDetails {
    /// What a list says of it.
    #[serde(flatten)]
    pub brief: WorkspaceBrief,
    /// Why it stopped, if that was not requested.
    pub stop_reason: Option<String>,
    /// How its machine was started: `pool`, `warm_template`, `base_template`, `cold`, `fork` or `snapshot`.
    pub tier: String,
    /// `kvm` or `tcg`, while it runs.
    pub accel: Option<String>,
    /// Process id of its QEMU, while it runs.
    pub pid: Option<u32>,
    /// Limits of its machine while it runs; null if there are none.
    #[serde(default)]
    pub limits: Option<MachineLimits>,
    /// Whether it came from the warm pool.
    pub from_pool: bool,
    /// What it is a fork of.
    pub forked_from: Option<ForkedFrom>,
    /// Network rules.
    pub network: NetworkRules,
    /// Port forwards.
    pub port_forwards: Vec<Forward>,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<super::SnapshotBrief>,
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

/// Makes a workspace and starts it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceCreate {
    /// Name and host name: letters, digits and hyphens, at most 63. Default: generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Image. Default: from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_image: Option<String>,
    /// Virtual CPUs. Default: from the configuration, else 2 under KVM and 1 under emulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Memory in MiB. Default: from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Root file system in GiB. Default: from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
    /// Must be false or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_internet: Option<bool>,
    /// Up to 32 labels; keys of lower-case letters, digits and `._/-`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Destroy it after this many seconds. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_secs: Option<u64>,
    /// Stop it after this many seconds without a call. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_stop_secs: Option<u64>,
    /// Boots a kernel instead of cloning a template.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold: bool,
    /// Do not take a machine from the warm pool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_pool: bool,
    /// Idempotency key. Repeating the call with the same key within 24 hours returns the first result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// A workspace that was made.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceCreated {
    /// Id for all other calls; the name works too.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// IP address; null without a network.
    pub ip: Option<String>,
    /// Duration in milliseconds.
    pub boot_time_ms: u64,
    /// Whether it came from the warm pool.
    pub from_pool: bool,
    /// How its machine was started.
    pub tier: String,
    /// `kvm` or `tcg`.
    pub accel: Option<String>,
    /// Its image.
    pub base_image: String,
    /// Its size.
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

impl super::Action for WorkspaceCreate {
    type Outcome = WorkspaceCreated;
    const ABOUT: super::About = super::About {
        name: "workspace_create",
        title: "Create a workspace",
        description: "Creates an isolated Linux virtual machine and starts it. Other calls take the returned \
                      workspace_id or the name. It keeps running and using memory until it is stopped or destroyed. \
                      No internet.",
        effect: super::Effect::Changes,
        idempotent: false,
        open_world: false,
        rate: super::Rate::Create,
    };
}

/// One workspace and nothing else.
macro_rules! of_one {
    ($(#[$doc:meta])* $action:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
        #[serde(deny_unknown_fields)]
        pub struct $action {
            /// Id or name.
            pub workspace_id: String,
        }
    };
}
pub(crate) use of_one;

of_one! {
    /// Destroys a workspace.
    WorkspaceDestroy
}
impl super::Action for WorkspaceDestroy {
    type Outcome = WorkspaceDestroyed;
    const ABOUT: super::About = super::About {
        name: "workspace_destroy",
        title: "Destroy a workspace",
        description: "Destroys a workspace, running or not, with its disk and snapshots, for good. Its forks are not \
                      affected.",
        effect: super::Effect::Destroys,
        idempotent: false,
        open_world: false,
        rate: super::Rate::Default,
    };

    fn subjects(&self) -> Vec<super::Subject<'_>> {
        vec![super::Subject::Removed(&self.workspace_id)]
    }
}

/// A workspace that is gone.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceDestroyed {
    /// Its id.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// Always true.
    pub destroyed: bool,
}

impl Outcome for WorkspaceDestroyed {
    fn text(&self) -> String {
        format!("workspace {} ({}) destroyed", self.name, self.workspace_id)
    }
}

/// The state a workspace is in after a change.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceStateNow {
    /// Its id.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// IP address; null without a network.
    pub ip: Option<String>,
    /// Duration in milliseconds.
    pub took_ms: u64,
    /// A further note.
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
action!(WorkspaceStart -> WorkspaceStateNow, "workspace_start", "Start a workspace", Changes, Create,
    idempotent: true;
    "Starts a stopped workspace from its disk, or resumes a suspended one. Does nothing if it is running. Variables \
     of set_env and port forwards come back; background jobs do not.");

/// Stops a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceStop {
    /// Id or name.
    pub workspace_id: String,
    /// Kill the machine instead of shutting it down; unsynced writes are lost. Discards the memory of a suspended one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Seconds to wait for a clean shutdown before it is killed. Default: from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
}
action!(WorkspaceStop -> WorkspaceStateNow, "workspace_stop", "Stop a workspace", Changes, Default,
    idempotent: true;
    "Shuts a workspace down: its processes end and its memory is freed; disk and snapshots stay. workspace_start \
     starts it again.");

of_one! {
    /// Suspends a workspace.
    WorkspaceSuspend
}
action!(WorkspaceSuspend -> WorkspaceStateNow, "workspace_suspend", "Suspend a workspace", Changes, Default,
    idempotent: true;
    "Saves a running workspace's memory to disk and ends its machine, so that it uses no memory or CPU. \
     workspace_resume continues its processes where they were, even after a restart of the host.");

of_one! {
    /// Resumes a suspended workspace.
    WorkspaceResume
}
action!(WorkspaceResume -> WorkspaceStateNow, "workspace_resume", "Resume a workspace", Changes, Create,
    idempotent: true;
    "Continues a suspended workspace where it was. Does nothing if it is running.");

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
action!(no workspace: WorkspaceList -> WorkspaceListed, "workspace_list", "List workspaces", Reads, Default,
    idempotent: true;
    "Lists workspaces, oldest first; `owned` marks this session's. A workspace without an owner can be used at once \
     and then belongs to this session.");

/// Workspaces.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceListed {
    /// The workspaces.
    pub workspaces: Vec<WorkspaceBrief>,
    /// How many they are.
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

of_one! {
    /// Shows a workspace's details.
    WorkspaceInfo
}
action!(WorkspaceInfo -> WorkspaceDetails, "workspace_info", "Describe a workspace", Reads, Default,
    idempotent: true;
    "Returns a workspace's state, size, lineage, snapshots, port forwards, labels, times, and the names (never the \
     values) of its variables.");

/// Shows what a machine printed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceLogs {
    /// Id or name.
    pub workspace_id: String,
    /// `console`, `stderr` (QEMU's messages) or `all` (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_type: Option<String>,
    /// Number of last lines of each, at most 10000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lines: Option<u32>,
}
action!(WorkspaceLogs -> WorkspaceLogged, "workspace_logs", "Show a workspace's console", Reads, Default,
    idempotent: true;
    "Returns the last lines of a machine's serial console and of QEMU's messages, for a machine that does not start \
     or has crashed. Does not contain the output of commands.");

/// What a machine printed.
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
    pub workspace_id: String,
    /// Its new name, which must be free.
    pub new_name: String,
}
action!(WorkspaceRename -> WorkspaceStateNow, "workspace_rename", "Rename a workspace", Changes, Default,
    idempotent: true;
    "Renames a workspace, and its host name at once if it runs. Its id stays.");

/// Gives a workspace a larger disk.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceGrow {
    /// Id or name of the workspace, which must run.
    pub workspace_id: String,
    /// How many GiB its disk is to have.
    pub disk_gb: u32,
}
action!(WorkspaceGrow -> WorkspaceStateNow, "workspace_grow", "Give a workspace a larger disk", Changes, Default,
    idempotent: true;
    "Grows the disk and root file system of a running workspace without a restart. Snapshots keep their size: \
     restoring an earlier one brings the smaller disk back.");
