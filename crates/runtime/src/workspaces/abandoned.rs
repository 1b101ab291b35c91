//! Changes that were given up, and could not be noted as that because the disk was full.

use std::sync::{Arc, Mutex, PoisonError};

use agentiso_meta::OperationId;

use super::Workspaces;

/// Nobody else sees to a change for as long as its owner lives, and this process may live long.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abandoned(Arc<Mutex<Vec<OperationId>>>);

impl Workspaces {
    /// Leaves what there is still to do of changes to whoever looks next, as soon as that can be noted.
    pub(super) fn abandon(&self, ids: &[OperationId]) {
        self.abandoned.0.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
        self.note_abandoned();
    }

    /// Notes what could not be noted before; what cannot be now either is the next time.
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
            Err(error) => tracing::warn!(%error, "what was given up could not be noted yet"),
        }
    }
}
