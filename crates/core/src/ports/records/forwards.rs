//! Port forwards.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Failure, WorkspaceId};

/// A port of the host that leads into a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Forward {
    /// Whose it is.
    pub workspace: WorkspaceId,
    /// The workspace whose port it is, if it is another one: connections go there over the network of the first.
    pub to: Option<WorkspaceId>,
    /// To which port. It may have several forwards.
    pub guest_port: u16,
    /// The port of the host. No two forwards share one.
    pub host_port: u16,
    /// When it was made, to the microsecond.
    pub created: Timestamp,
}

/// Port forwards.
#[async_trait]
pub trait ForwardRecords: Send + Sync {
    /// The forwards of a workspace, sorted by guest port and host port.
    async fn forwards_of(&self, workspace: WorkspaceId) -> Result<Vec<Forward>, Failure>;

    /// Adds a forward; fails with `port_unavailable` if its host port is forwarded already.
    async fn insert_forward(&self, forward: &Forward) -> Result<(), Failure>;

    /// Removes the forwards of these host ports that belong to the workspace.
    async fn remove_forwards(&self, workspace: WorkspaceId, host_ports: &[u16]) -> Result<(), Failure>;
}
