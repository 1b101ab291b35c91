//! Noticing at once that a machine has ended.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use agentiso_core::WorkspaceId;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::events::EventKind;
use crate::Engine;

impl Engine {
    /// Watches the machine a workspace has now, until it ends or has been replaced.
    pub(crate) fn watch(self: &Arc<Self>, id: WorkspaceId) {
        let Ok(view) = self.workspaces.info(&id.to_string()) else { return };
        let Some(pid) = view.pid else { return };
        let Some(process) = open(pid) else { return };
        let engine = Arc::downgrade(self);
        tokio::spawn(async move {
            if process.readable().await.is_err() {
                return;
            }
            let Some(engine) = engine.upgrade() else { return };
            // Whoever ends a machine on purpose has the turn and says so before it gives it back.
            let room = engine.rooms.of(id);
            let _turn = room.change().await;
            engine.note_end(id, pid).await;
        });
    }

    async fn note_end(&self, id: WorkspaceId, pid: u32) {
        match self.workspaces.note_if_ended(id, pid).await {
            Ok(Some(workspace)) => {
                let note = Some("its machine ended unexpectedly".to_owned());
                self.events.tell(EventKind::Crashed, id, workspace.name.as_str(), note);
            }
            Ok(None) => {}
            Err(failure) => tracing::warn!(%failure, "could not note that a machine has ended"),
        }
    }
}

/// Becomes readable when the process ends. `None` if it has ended and is gone already: whoever looks next sees that.
fn open(pid: u32) -> Option<AsyncFd<OwnedFd>> {
    let pid = Pid::from_raw(pid.cast_signed())?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    AsyncFd::with_interest(process, Interest::READABLE).ok()
}

