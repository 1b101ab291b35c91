//! Undertakings: changes that are completed or undone as a whole.
//!
//! ```text
//!   undertake ─► intent recorded ─► work ─► finish: rows written and intent deleted in one transaction
//!                       │              └──► dropped: unreferenced files removed, operation marked as abandoned
//!                       └ process dies: the next process recovers it (see `recover`)
//! ```
//!
//! Undoing removes only what the database was read successfully and does not refer to. If the database cannot be read,
//! nothing is removed and the operation stays recorded for the next recovery.

use agentiso_blocking::in_place;
use agentiso_core::{Failure, WorkspaceId};
use agentiso_meta::{MetaError, OperationId, Tx};

use super::Workspaces;
use super::files::remove_file;
use super::intent::Intent;

/// A change whose intent is recorded. Dropped before it is finished, it is undone; what fails to be undone is left to the
/// next recovery.
pub(crate) struct Undertaking<'a> {
    workspaces: &'a Workspaces,
    id: Option<OperationId>,
    intent: Intent,
}

impl Workspaces {
    /// Records the intent of a change.
    pub(crate) fn undertake(
        &self,
        kind: &str,
        workspace: Option<WorkspaceId>,
        intent: Intent,
    ) -> Result<Undertaking<'_>, Failure> {
        let value = serde_json::to_value(&intent).map_err(internal)?;
        let id = in_place(|| self.meta.write(|tx| tx.begin(kind, workspace, &value)))?;
        Ok(Undertaking { workspaces: self, id: Some(id), intent })
    }

    /// Continues a change whose intent the caller recorded in its own transaction.
    pub(crate) fn resume_undertaking(&self, id: OperationId, intent: Intent) -> Undertaking<'_> {
        Undertaking { workspaces: self, id: Some(id), intent }
    }

    /// Removes everything in an intent that the database does not refer to.
    pub(crate) fn remove_unknown(&self, intent: &Intent) -> Result<(), Failure> {
        for &disk in &intent.disks {
            if self.meta.read(|read| read.disk_if_known(disk))?.is_none() {
                remove_file(&self.installation.disk_path(disk))
                    .map_err(|error| self.installation.io("remove a disk", error))?;
            }
        }
        for &memory in &intent.memories {
            if self.meta.read(|read| read.memory_if_known(memory))?.is_none() {
                self.memory()
                    .remove(memory, &[])
                    .map_err(|error| self.installation.io("remove a memory image", error))?;
            }
        }
        if intent.machine_dirs.is_empty() {
            return Ok(());
        }
        let known = self.known_machines()?;
        for dir in &intent.machine_dirs {
            if known.iter().all(|machine| machine.dir != *dir) {
                dir.remove(&self.installation.paths.workspaces_dir())
                    .map_err(|error| self.installation.io("remove a machine's directory", error))?;
            }
        }
        Ok(())
    }
}

impl Undertaking<'_> {
    /// Completes the change: runs `change` and deletes the intent in one transaction.
    pub fn finish<T>(mut self, change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError>) -> Result<T, Failure> {
        let Some(id) = self.id else { return Err(internal("an undertaking was finished twice")) };
        let done = in_place(|| {
            self.workspaces.meta.write(|tx| {
                let done = change(tx)?;
                tx.complete(id)?;
                Ok(done)
            })
        })?;
        self.id = None;
        self.workspaces.write_records();
        Ok(done)
    }

    /// Completes a change of which a part failed: that part is undone.
    pub fn finish_in_part<T>(
        mut self,
        change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError>,
    ) -> Result<T, Failure> {
        let Some(id) = self.id else { return Err(internal("an undertaking was finished twice")) };
        let done = in_place(|| {
            self.workspaces.meta.write(|tx| {
                let done = change(tx)?;
                tx.abandon(id)?;
                Ok(done)
            })
        })?;
        self.id = None;
        self.workspaces.write_records();
        if let Err(failure) = in_place(|| self.workspaces.remove_unknown(&self.intent)) {
            tracing::warn!(%failure, "could not undo the failed part yet");
        }
        Ok(done)
    }

    /// Commits a part of the change that stays even if the rest fails.
    pub fn settle<T>(&self, change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError>) -> Result<T, Failure> {
        let done = in_place(|| self.workspaces.meta.write(change))?;
        self.workspaces.write_records();
        Ok(done)
    }
}

impl Drop for Undertaking<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let mut undo = self.intent.clone();
        if let Some(switch) = undo.switch {
            // Only QEMU knows whether the machine has switched; the recovery asks it.
            undo.disks.retain(|&disk| disk != switch.to);
        }
        let undone = in_place(|| self.workspaces.remove_unknown(&undo));
        // The operation stays recorded, so that the next recovery removes what is left.
        self.workspaces.abandon(&[id]);
        if let Err(failure) = undone {
            tracing::warn!(%failure, "could not undo a failed change yet");
        }
    }
}

pub(super) fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::new(agentiso_core::Code::Internal, error.to_string())
}
