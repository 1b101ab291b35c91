//! The types that all crates share: ids, names, limits, errors, actions, and the ports of the engine.
//!
//! Nothing here reads a clock, a file or the environment: results depend only on arguments.

pub mod action;
pub mod admission;
pub mod approval;
mod capture;
mod code;
mod engine_settings;
mod failure;
mod id;
mod label;
mod name;
mod network;
mod network_change;
pub mod ports;
pub mod progress;
mod reference;
mod resources;
mod secret;
mod suggest;
pub mod wire;

pub use capture::Capture;
pub use code::Code;
pub use engine_settings::{
    EngineSettings, ImageAccess, Isolation, NetworkSettings, RateLimits, SessionQuota, TransferSettings,
};
pub use failure::{Explain, Failure, chain};
pub use id::{ApprovalId, DiskId, MemoryId, SessionId, SnapshotId, WorkspaceId};
pub use label::{LabelChanges, LabelError, Labels, MAX_LABELS, check_labels};
pub use name::{ImageName, NameError, SnapshotName, WorkspaceName};
pub use network::{Ask, Egress, NetworkEntry, NetworkEvent, NetworkProtocol, NetworkRules, NetworkState};
pub use network_change::{NetworkChange, NetworkPreset};
pub use reference::{WorkspaceRef, resembles_id};
pub use resources::{Limits, MIN_MEMORY_MB, Resources, ResourcesError};
pub use secret::{AsText, Secret, Sensitive, in_clear, summary_of};
pub use suggest::nearest;
