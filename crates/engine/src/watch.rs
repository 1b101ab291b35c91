//! Detects the end of machines as soon as their processes exit.

use std::sync::Arc;

use agentiso_core::WorkspaceId;
use agentiso_core::ports::host::MachineEnded;

use crate::Engine;
use crate::events::EventKind;

impl Engine {
    /// Watches the machine a workspace has now, until it ends or has been replaced.
    pub(crate) async fn watch(self: &Arc<Self>, id: WorkspaceId) {
        let Ok(view) = self.host.info(id).await else { return };
        let Some(pid) = view.pid else { return };
        let (engine, end) = (Arc::downgrade(self), self.host.machine_end(pid));
        tokio::spawn(async move {
            end.await;
            let Some(engine) = engine.upgrade() else { return };
            // A call that ends the machine on purpose holds the lock or waits for it, and records the end itself.
            let live = engine.live.of(id);
            let _lock = live.lock_exclusive().await;
            if !live.is_ending() {
                engine.note_end(id, Some(pid)).await;
            }
        });
    }

    /// Records the end of a workspace's machine, or of the one with that process id, and sends an event, if it is news.
    pub(crate) async fn note_end(&self, id: WorkspaceId, pid: Option<u32>) {
        match self.host.note_if_ended(id, pid).await {
            Ok(Some(MachineEnded { workspace, reason })) => {
                self.events.tell(EventKind::Crashed, id, workspace.name.as_str(), reason).await;
            }
            Ok(None) => {}
            Err(failure) => tracing::warn!(%failure, "could not note that a machine has ended"),
        }
    }
}
