//! The settings of the engine, independent of the configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{Limits, NetworkPreset, NetworkRules, Resources};

/// All settings of the engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The data directory, for display.
    pub home: PathBuf,
    /// The configuration file, for display.
    pub config_file: PathBuf,
    /// The size of a workspace that was created without one.
    pub default_resources: Resources,
    /// The image of a workspace that was created without one.
    pub default_image: String,
    /// The largest machine, and the most workspaces of all sessions.
    pub limits: Limits,
    /// Whether a workspace that does not run is started when it is used.
    pub start_on_use: bool,
    /// What agents may do with images.
    pub image_access: ImageAccess,
    /// How far sessions are kept apart.
    pub isolation: Isolation,
    /// What one session may have.
    pub session_quota: SessionQuota,
    /// How long a session must have been idle before another one may take its workspaces.
    pub adopt_idle_secs: u32,
    /// How many calls sessions may make.
    pub rates: RateLimits,
    /// Files between host and workspaces.
    pub transfers: TransferSettings,
    /// The network of workspaces.
    pub network: NetworkSettings,
    /// Ports of the host that are never forwarded, because the daemon listens on them.
    pub own_ports: Vec<u16>,
}

/// What agents may do with images.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ImageAccess {
    /// Start from those they know by name, and nothing else.
    Off,
    /// List them too.
    List,
    /// Make and remove them too.
    Manage,
}

/// How far sessions are kept apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Isolation {
    /// A session sees all workspaces, uses its own, and adopts one without an owner by using it.
    Shared,
    /// A session sees and uses its own workspaces only.
    Strict,
}

/// What one session may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionQuota {
    /// Workspaces.
    pub workspaces: u32,
    /// Memory of all of them, in MiB.
    pub memory_mb: u32,
    /// Disks of all of them, in GiB.
    pub disk_gb: u32,
    /// Snapshots.
    pub snapshots: u32,
}

/// How many calls a minute a session may make.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RateLimits {
    /// Whether calls are counted at all.
    pub enabled: bool,
    /// Calls that create workspaces.
    pub create_per_minute: u32,
    /// Calls that run commands.
    pub exec_per_minute: u32,
    /// All other calls.
    pub default_per_minute: u32,
}

/// Limits of file transfers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TransferSettings {
    /// The directory agents may copy from and to.
    pub dir: PathBuf,
    /// The most bytes of one download.
    pub max_bytes: u64,
    /// The most files, directories and links of one download.
    pub max_files: u64,
    /// Bytes that a download leaves free on the host's disk.
    pub reserve_bytes: u64,
}

/// The network of workspaces.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NetworkSettings {
    /// The rules of a workspace that was created without any.
    pub default_rules: NetworkRules,
    /// Whether only the operator may let workspaces reach more than the rules they were created with, and refused
    /// destinations raise requests for approval.
    pub ask: bool,
    /// Named sets of rules.
    pub presets: BTreeMap<String, NetworkPreset>,
}
