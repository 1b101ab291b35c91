//! Operations that failed and could not be marked as abandoned, for example because the disk was full.

use std::sync::{Arc, Mutex, PoisonError};

use agentiso_meta::OperationId;

use super::Workspaces;

/// Operations to mark as abandoned. Until then nobody recovers them, because their owner, this process, is alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abandoned(Arc<Mutex<Vec<OperationId>>>);

impl Workspaces {
    /// Marks operations as abandoned, now or as soon as the database can be written, so that they are recovered.
    pub(super) fn abandon(&self, ids: &[OperationId]) {
        self.abandoned.0.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
        self.note_abandoned();
    }

    /// Marks the operations that could not be marked before. What fails is tried again the next time.
    pub(super) fn note_abandoned(&self) {
        let mut ids = self.abandoned.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.is_empty() {
            return;
        }
        let noted = self.meta.write(|tx| {
            let there = tx.operations()?;
            ids.iter().filter(|id| there.iter().any(|one| one.id == **id)).try_for_each(|&id| tx.abandon(id))
        });
        match noted {
            Ok(()) => ids.clear(),
            Err(error) => tracing::warn!(%error, "could not mark operations as abandoned yet"),
        }
    }
}
