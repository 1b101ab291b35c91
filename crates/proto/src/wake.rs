//! What a machine is told after a pause it does not know of.

use serde::{Deserialize, Serialize};

use crate::message::{Configure, ExitStatus};

/// Makes a clone, a fork or a restored machine itself before anything of its user's runs again: identity, boot id,
/// a thawed root, then the hooks, and last the end of the hold. If a step fails, what follows is not done and the
/// machine stays held.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wake {
    /// Who it is now.
    pub identity: Configure,
    /// What `/proc/sys/kernel/random/boot_id` says from now on; as it was if absent.
    pub boot_id: Option<[u8; 16]>,
    /// What happened to it.
    pub event: WakeEvent,
    /// Runs the hooks in `/etc/agentiso/hooks.d`, all of them together for at most this many milliseconds.
    pub hooks_ms: Option<u32>,
}

/// What happened to a machine.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum WakeEvent {
    /// It is a fresh machine.
    #[default]
    Start,
    /// It was split off a running one or a snapshot of one.
    Fork,
    /// It was taken back to an earlier moment of its own.
    Restore,
}

/// What became of one hook.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HookReport {
    /// Its file name: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// How it ended.
    pub outcome: HookOutcome,
    /// The end of what it printed.
    pub output: Vec<u8>,
}

/// How a hook ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum HookOutcome {
    /// It ran to its end.
    Exited(ExitStatus),
    /// Time was up while it ran, or before its turn.
    TimedOut,
    /// It was not run, for this reason.
    Skipped(String),
}
