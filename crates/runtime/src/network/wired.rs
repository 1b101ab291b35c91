//! A machine that is attached and not recorded yet.

use std::sync::Arc;

use agentiso_core::WorkspaceId;

use super::Net;

/// A machine on the router. Dropped before it is kept, it is detached again.
pub(crate) struct Wired {
    net: Arc<Net>,
    workspace: WorkspaceId,
    /// Which card it has; part of the machine's record.
    pub card: String,
    is_kept: bool,
}

impl Wired {
    pub(super) fn new(net: Arc<Net>, workspace: WorkspaceId, card: String) -> Self {
        net.begin(workspace);
        Self { net, workspace, card, is_kept: false }
    }

    /// Leaves the machine attached: it is recorded.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Wired {
    fn drop(&mut self) {
        self.net.end(self.workspace);
        if !self.is_kept {
            Arc::clone(&self.net).detach_soon(self.workspace);
        }
    }
}
