//! What a machine is made of, as far as a memory image depends on it.

use std::fmt;

pub use agentiso_core::action::Accel;
use serde::{Deserialize, Serialize};

/// How host and guest talk.
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

/// The shape of a machine. Two machines of one shape can share a memory image.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Hardware {
    /// How instructions run.
    pub accel: Accel,
    /// How host and guest talk.
    pub link: LinkKind,
    /// Virtual processors.
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
