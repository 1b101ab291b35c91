//! What an undertaking makes, written down before it is made.

use agentiso_core::{Code, DiskId, Failure, MemoryId, WorkspaceId};
use agentiso_meta::Operation;
use serde::{Deserialize, Serialize};

/// Everything that must not stay if the undertaking fails.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Intent {
    /// Disks it makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskId>,
    /// Memory images it writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<MemoryId>,
    /// Directories of machines it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub berths: Vec<BerthName>,
    /// The disk a machine is moved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<Switch>,
    /// A disk whose file is being rewritten to stand on another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapse: Option<DiskId>,
}

impl Intent {
    /// What an operation announced. One that cannot be understood is an error: what it has in hand must not be taken
    /// for nobody's.
    pub fn of(operation: &Operation) -> Result<Self, Failure> {
        serde_json::from_value(operation.intent.clone()).map_err(|error| {
            let message = format!("what is stored about an unfinished change makes no sense: {error}");
            Failure::new(Code::DataDamaged, message)
        })
    }
}

/// A machine's directory.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct BerthName {
    /// Whose machine.
    pub workspace: WorkspaceId,
    /// Which of its machines: a restored one is started before the old one ends.
    pub machine: uuid::Uuid,
}

impl BerthName {
    /// A directory that no machine had before.
    pub fn new(workspace: WorkspaceId) -> Self {
        Self { workspace, machine: uuid::Uuid::now_v7() }
    }
}

/// A machine goes on with another disk, which stands on the one it had.
///
/// Once the new disk exists the machine may have written to it, so a switch is never undone: what nobody wrote to
/// reads the same as what it stands on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Switch {
    /// Whose machine.
    pub workspace: WorkspaceId,
    /// The disk it had.
    pub from: DiskId,
    /// The disk it gets.
    pub to: DiskId,
}
