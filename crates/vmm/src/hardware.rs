//! The hardware of a machine, as far as a memory image depends on it.

use std::fmt;

pub use agentiso_core::action::Accel;
use serde::{Deserialize, Serialize};

/// How host and guest communicate.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// A virtio serial port: works everywhere.
    Serial,
    /// A virtio socket: needs `/dev/vhost-vsock`.
    Vsock,
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serial => "virtio-serial",
            Self::Vsock => "vsock",
        })
    }
}

/// The hardware of a machine. Machines with equal hardware can share a memory image.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Hardware {
    /// KVM or emulation.
    pub accel: Accel,
    /// How host and guest communicate.
    pub link: LinkKind,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u32,
}

impl Hardware {
    /// Memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.memory_mb) << 20
    }
}
