//! Workspaces: made, started, stopped, found, forked and removed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::fork::ForkedFrom;

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
    /// Its id, for ever.
    pub workspace_id: String,
    /// Its name, accepted wherever an id is.
    pub name: String,
    /// `running`, `stopped` or `suspended`.
    pub state: String,
    /// Its address; null while it has no network.
    pub ip: Option<String>,
    /// Whether this session owns it.
    pub owned: bool,
    /// Its image.
    pub base_image: String,
    /// Its size.
    pub resources: Size,
    /// When it was made.
    pub created_at: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it is a fork of: a workspace, or `workspace@snapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Id of the workspace it is a fork of, which may be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<String>,
}

/// What a workspace may do on a network.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NetworkRules {
    /// Whether it reaches the internet.
    pub allow_internet: bool,
    /// Whether it reaches other workspaces.
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

/// What the host holds a machine to. What is null is not limited.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct MachineLimits {
    /// Bytes of memory, of the guest and its QEMU.
    pub memory_bytes: Option<u64>,
    /// Bytes of it that may be swapped out besides.
    pub swap_bytes: Option<u64>,
    /// Processor time, in percent of one processor.
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
    /// Why it stopped, unless it was asked to.
    pub stop_reason: Option<String>,
    /// How its machine was started: `pool`, `warm_template`, `base_template`, `cold`, `fork` or `snapshot`.
    pub tier: String,
    /// `kvm` or `tcg`, while it runs.
    pub accel: Option<String>,
    /// Process id of its QEMU, while it runs.
    pub pid: Option<u32>,
    /// What the host holds its machine to, while it runs; null if to nothing.
    #[serde(default)]
    pub limits: Option<MachineLimits>,
    /// Whether it was taken from the pool.
    pub from_pool: bool,
    /// What it is a fork of.
    pub forked_from: Option<ForkedFrom>,
    /// What it may do on a network.
    pub network: NetworkRules,
    /// Ports that lead into it.
    pub port_forwards: Vec<Forward>,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<super::SnapshotBrief>,
    /// Bytes its own disk layers take on the host.
    pub disk_used_bytes: u64,
    /// Size of its disk.
    pub disk_volsize_bytes: u64,
    /// The shell that runs its commands: `/bin/bash`, or `/bin/sh` in an image without bash. Null until it has run.
    #[serde(default)]
    pub shell: Option<String>,
    /// Names of the variables every command gets; never their values.
    pub env_names: Vec<String>,
    /// When it is destroyed by itself.
    pub expires_at: Option<String>,
    /// Seconds without a call after which it is stopped by itself.
    pub idle_stop_secs: Option<u64>,
    /// When it was last used.
    pub last_used_at: String,
    /// Whether it is started when the daemon starts, unless it was stopped on purpose.
    #[serde(default)]
    pub restart: bool,
    /// Its size from its next start on, if that differs.
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
    /// Name of the workspace and its host name: letters, digits and hyphens, at most 63. Made up if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Image to start from; the configured one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_image: Option<String>,
    /// Virtual processors; the configured number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Memory in MiB; the configured size if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Size of the root file system in GiB; the configured size if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
    /// Whether it may reach the internet. Only false can be had so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_internet: Option<bool>,
    /// Words to find it by: at most 32, keys of lower-case letters, digits and `._/-`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Seconds after which it is destroyed by itself; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_secs: Option<u64>,
    /// Seconds without a call after which it is stopped by itself; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_stop_secs: Option<u64>,
    /// Boots a kernel instead of cloning a template.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold: bool,
    /// Starts a machine even if the pool has one ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_pool: bool,
    /// A word of the caller's: the same call with the same key, within a day, makes nothing and gives the same answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// A workspace that was made.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkspaceCreated {
    /// Its id: what all other calls need. Its name does as well.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// `running`.
    pub state: String,
    /// Its address; null while it has no network.
    pub ip: Option<String>,
    /// How long the whole took.
    pub boot_time_ms: u64,
    /// Whether it was taken from the pool.
    pub from_pool: bool,
    /// How its machine was started.
    pub tier: String,
    /// `kvm` or `tcg`.
    pub accel: Option<String>,
    /// Its image.
    pub base_image: String,
    /// Its size.
    pub resources: Size,
    /// When it is destroyed by itself.
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
        description: "Creates an isolated Linux virtual machine and starts it. Returns workspace_id, which every \
                      other call takes (the name does as well). It keeps running, and using memory, until it is \
                      stopped or destroyed. No internet. Fails without a trace: name taken, image unknown, size \
                      beyond the limits, or quota used up.",
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
        description: "Destroys a workspace, running or not: its machine, disk and snapshots are gone for good. Forks of it \
                      live on.",
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
    /// `running`, `stopped` or `suspended`.
    pub state: String,
    /// Its address; null while it has no network.
    pub ip: Option<String>,
    /// How long it took.
    pub took_ms: u64,
    /// What else there is to know.
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
    "Starts a stopped workspace on its disk, or resumes a suspended one. One that runs is left as it is. Variables \
     set with set_env and port forwards are there again; background jobs are not.");

/// Stops a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceStop {
    /// Id or name.
    pub workspace_id: String,
    /// Switches it off instead of asking it to power off: files not yet written are lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Seconds it may take to power off before it is switched off; the configured time if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
}
action!(WorkspaceStop -> WorkspaceStateNow, "workspace_stop", "Stop a workspace", Changes, Default,
    idempotent: true;
    "Stops a workspace: its processes end, its memory is freed, its disk and snapshots stay. workspace_start brings \
     it back.");

of_one! {
    /// Suspends a workspace.
    WorkspaceSuspend
}
action!(WorkspaceSuspend -> WorkspaceStateNow, "workspace_suspend", "Suspend a workspace", Changes, Default,
    idempotent: true;
    "Writes a running workspace's memory to disk and ends its machine: it uses neither memory nor processor, and \
     workspace_resume brings it back to the very instruction, processes and all, even after the host restarted.");

of_one! {
    /// Resumes a suspended workspace.
    WorkspaceResume
}
action!(WorkspaceResume -> WorkspaceStateNow, "workspace_resume", "Resume a workspace", Changes, Create,
    idempotent: true;
    "Brings a suspended workspace back to where it was. One that runs is left as it is.");

/// Lists workspaces.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceList {
    /// Only those that are `running`, `stopped` or `suspended`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_filter: Option<String>,
    /// Only those with all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Only those this session owns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owned: bool,
}
action!(no workspace: WorkspaceList -> WorkspaceListed, "workspace_list", "List workspaces", Reads, Default,
    idempotent: true;
    "Lists all workspaces, oldest first, whoever made them; `owned` says which are this session's. One that nobody \
     owns can be used at once and is this session's from then on.");

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
    /// Says all about a workspace.
    WorkspaceInfo
}
action!(WorkspaceInfo -> WorkspaceDetails, "workspace_info", "Describe a workspace", Reads, Default,
    idempotent: true;
    "Says all about a workspace: state, size, lineage, snapshots, port forwards, labels, times, and the names (never \
     the values) of its variables.");

/// Shows what a machine printed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceLogs {
    /// Id or name.
    pub workspace_id: String,
    /// `console`, `stderr` (QEMU's own words) or `all`, the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_type: Option<String>,
    /// The last so many lines of each; 100 if absent, at most 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lines: Option<u32>,
}
action!(WorkspaceLogs -> WorkspaceLogged, "workspace_logs", "Show a workspace's console", Reads, Default,
    idempotent: true;
    "Shows the last lines of a machine's serial console and of QEMU's own messages: where to look when a machine \
     does not start or has crashed. What commands printed is not there.");

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
    "Renames a workspace; its host name inside follows at once if it runs. Its id stays.");

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
    "Grows the disk and the root file system of a running workspace, without a restart. Snapshots keep the size they \
     have: restoring an earlier one makes the disk as small again.");
