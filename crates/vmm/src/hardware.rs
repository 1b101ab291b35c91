//! What a machine is made of, as far as a memory image depends on it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How guest instructions run.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// By the processor, through the kernel.
    Kvm,
    /// By translation, anywhere.
    Tcg,
}

impl fmt::Display for Accel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        })
    }
}

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
