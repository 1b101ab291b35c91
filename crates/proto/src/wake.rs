//! The request that wakes a machine after a fork or restore.

use serde::{Deserialize, Serialize};

use crate::message::{Configure, ExitStatus};

/// Wakes a clone, fork or restored machine before any user process runs again: sets its identity and boot id, thaws the
/// root, runs the hooks, and ends the hold. If a step fails, later steps are skipped and the machine stays held.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wake {
    /// The machine's new identity.
    pub identity: Configure,
    /// New content of `/proc/sys/kernel/random/boot_id`; unchanged if absent.
    pub boot_id: Option<[u8; 16]>,
    /// What happened to the machine.
    pub event: WakeEvent,
    /// Runs the hooks in `/etc/agentiso/hooks.d`, for at most this many milliseconds in all.
    pub hooks_ms: Option<u32>,
}

/// What happened to a machine.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum WakeEvent {
    /// It is new.
    #[default]
    Start,
    /// It was forked from a running machine or from a snapshot.
    Fork,
    /// It was restored to an earlier state of its own.
    Restore,
}

/// The result of one hook.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HookReport {
    /// File name: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// How it ended.
    pub outcome: HookOutcome,
    /// The end of its output.
    pub output: Vec<u8>,
}

/// How a hook ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum HookOutcome {
    /// It ran to completion.
    Exited(ExitStatus),
    /// The time limit was reached while it ran, or before it started.
    TimedOut,
    /// It was not run, for this reason.
    Skipped(String),
}
