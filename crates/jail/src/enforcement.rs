//! What the kernel enforces for a sandbox.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that a sandbox keeps a command from doing.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// A user namespace: the command has no rights of another user of the host, and no capabilities on the host.
    UserNamespace,
    /// A mount namespace with a root of its own: files that are not in the specification do not exist.
    Filesystem,
    /// A pid namespace: processes of the host are invisible.
    PidNamespace,
    /// A `/proc` of the pid namespace, without the files that concern the whole kernel.
    Proc,
    /// The network is as specified.
    Network,
    /// An ipc namespace.
    IpcNamespace,
    /// A uts namespace: its own host name.
    UtsNamespace,
    /// A cgroup namespace.
    CgroupNamespace,
    /// Programs cannot gain privileges.
    NoNewPrivileges,
    /// Capabilities have been dropped.
    Capabilities,
    /// A filter of system calls.
    Seccomp,
    /// Landlock, as a second layer.
    Landlock,
    /// The limit of memory.
    MemoryLimit,
    /// The limit of processes.
    ProcessLimit,
    /// The limit of processor time per wall time.
    CpuLimit,
    /// Limits per process: processor seconds, file size, open files.
    ProcessResources,
    /// All processes end with the command, its timeout, or the caller.
    TreeEnds,
}

/// How far a measure is in force.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As specified.
    Enforced,
    /// Partly. The detail says what is missing.
    Degraded,
    /// Not at all. The detail says why.
    Unavailable,
}

/// One measure of a sandbox.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Enforced {
    /// The measure.
    pub measure: Measure,
    /// How far it is in force.
    pub state: State,
    /// How it is enforced, or why it is not.
    pub detail: String,
}

/// Every measure that applies to a sandbox. Limits that were not asked for are left out.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Enforcement {
    measures: Vec<Enforced>,
}

impl Enforcement {
    /// All measures, ordered.
    pub fn measures(&self) -> &[Enforced] {
        &self.measures
    }

    /// One measure.
    pub fn get(&self, measure: Measure) -> Option<&Enforced> {
        self.measures.iter().find(|one| one.measure == measure)
    }

    /// Whether every measure is fully in force.
    pub fn is_complete(&self) -> bool {
        self.measures.iter().all(|one| one.state == State::Enforced)
    }

    /// Records a measure. A measure that was recorded before is replaced.
    pub(crate) fn record(&mut self, measure: Measure, state: State, detail: impl Into<String>) {
        self.measures.retain(|one| one.measure != measure);
        self.measures.push(Enforced { measure, state, detail: detail.into() });
        self.measures.sort_by_key(|one| one.measure);
    }

    /// The first required measure that is not fully in force.
    pub(crate) fn missing(&self, required: &[Measure]) -> Option<&Enforced> {
        let is_missing = |one: &&Enforced| one.state != State::Enforced && required.contains(&one.measure);
        self.measures.iter().find(is_missing)
    }
}

impl Measure {
    /// The name as it is serialised.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserNamespace => "user_namespace",
            Self::Filesystem => "filesystem",
            Self::PidNamespace => "pid_namespace",
            Self::Proc => "proc",
            Self::Network => "network",
            Self::IpcNamespace => "ipc_namespace",
            Self::UtsNamespace => "uts_namespace",
            Self::CgroupNamespace => "cgroup_namespace",
            Self::NoNewPrivileges => "no_new_privileges",
            Self::Capabilities => "capabilities",
            Self::Seccomp => "seccomp",
            Self::Landlock => "landlock",
            Self::MemoryLimit => "memory_limit",
            Self::ProcessLimit => "process_limit",
            Self::CpuLimit => "cpu_limit",
            Self::ProcessResources => "process_resources",
            Self::TreeEnds => "tree_ends",
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforced => "enforced",
            Self::Degraded => "degraded",
            Self::Unavailable => "unavailable",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_measure_that_is_degraded_is_missing() {
        let mut enforcement = Enforcement::default();
        enforcement.record(Measure::Seccomp, State::Enforced, "");
        enforcement.record(Measure::Landlock, State::Degraded, "version 1");
        assert_eq!(enforcement.missing(&[Measure::Seccomp]), None);
        assert_eq!(enforcement.missing(&[Measure::Landlock]).unwrap().detail, "version 1");
        assert!(!enforcement.is_complete());
        enforcement.record(Measure::Landlock, State::Enforced, "version 6");
        assert!(enforcement.is_complete());
        assert_eq!(enforcement.measures().len(), 2);
    }

    #[test]
    fn printed_and_serialised_names_agree() {
        let all =
            [Measure::UserNamespace, Measure::NoNewPrivileges, Measure::TreeEnds, Measure::ProcessResources];
        for measure in all {
            assert_eq!(serde_json::to_string(&measure).unwrap(), format!("\"{measure}\""));
        }
    }
}
