//! The intent of an undertaking: what it will create, recorded before it does.

use std::net::Ipv4Addr;

use agentiso_core::{Code, DiskId, Failure, MemoryId, WorkspaceId};
use agentiso_meta::Operation;
use serde::{Deserialize, Serialize};

/// Everything that has to be removed if the undertaking fails, and changes that cannot be undone. The field names are
/// part of the stored format.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Intent {
    /// Disks it creates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskId>,
    /// Memory images it writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<MemoryId>,
    /// Directories of machines it starts.
    #[serde(default, rename = "berths", skip_serializing_if = "Vec::is_empty")]
    pub machine_dirs: Vec<MachineDirName>,
    /// Addresses it gives to workspaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Ipv4Addr>,
    /// The disk that a machine is switched to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<Switch>,
    /// A disk whose file is being rewritten with another backing file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapse: Option<DiskId>,
}

impl Intent {
    /// The intent of a stored operation. If it cannot be decoded that is an error: its disks must not be mistaken for
    /// unreferenced ones.
    pub fn of(operation: &Operation) -> Result<Self, Failure> {
        serde_json::from_value(operation.intent.clone()).map_err(|error| {
            let message = format!("the stored intent of an unfinished change cannot be understood: {error}");
            Failure::new(Code::DataDamaged, message)
        })
    }
}

/// Identifies the directory of a machine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct MachineDirName {
    /// The machine's workspace.
    pub workspace: WorkspaceId,
    /// Which of its machines: a restored one is started before the old one is killed.
    pub machine: uuid::Uuid,
}

impl MachineDirName {
    /// A new, unused name.
    pub fn new(workspace: WorkspaceId) -> Self {
        Self { workspace, machine: uuid::Uuid::now_v7() }
    }
}

/// The switch of a machine to a new disk whose backing file is the old one.
///
/// Once the new disk exists the machine may have written to it, so a switch is never undone. That is safe: a disk that
/// was not written to reads the same as its backing file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Switch {
    /// The machine's workspace.
    pub workspace: WorkspaceId,
    /// The old disk.
    pub from: DiskId,
    /// The new disk.
    pub to: DiskId,
}
