//! What confined a command, and what it used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What confined a command.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct EnforcementReport {
    /// Whether everything that was asked for is in force.
    pub complete: bool,
    /// How the command saw the vault, for example `overlay`.
    pub mount: String,
    /// What the command could reach: `none`, or what was allowed.
    pub network: String,
    /// The protections, one by one.
    pub protections: Vec<Protection>,
}

/// One protection.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Protection {
    /// Its name, for example `seccomp`.
    pub name: String,
    /// Whether it is in force.
    pub state: ProtectionState,
    /// Why it is not, or how far it goes.
    pub detail: Option<String>,
}

/// Whether a protection is in force.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtectionState {
    /// It is in force.
    Enforced,
    /// A part of it is in force.
    Degraded,
    /// The host does not offer it.
    Unavailable,
}

/// What a command used.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct UsageReport {
    /// Processor time in its own code, in milliseconds, of the command and the children it waited for.
    pub user_ms: u64,
    /// Processor time in the kernel, in milliseconds.
    pub system_ms: u64,
    /// The largest memory of one process, in bytes.
    pub max_rss_bytes: u64,
}
