//! One change, from its announcement to its end.

use std::fs;

use agentiso_blocking::in_place;
use agentiso_core::{Failure, WorkspaceId};
use agentiso_meta::{MetaError, OperationId, Tx};

use super::Workspaces;
use super::intent::Intent;
use super::record::gone;

/// A change that was announced. Dropped before it is finished, it is undone; what cannot be undone at once is left to
/// the next command.
pub(crate) struct Undertaking<'a> {
    workspaces: &'a Workspaces,
    id: Option<OperationId>,
    intent: Intent,
}

impl Workspaces {
    /// Announces a change.
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

    /// Carries on with a change that was announced in a transaction of the caller's.
    pub(crate) fn resume_undertaking(&self, id: OperationId, intent: Intent) -> Undertaking<'_> {
        Undertaking { workspaces: self, id: Some(id), intent }
    }

    /// Removes everything of an intent that the database does not know.
    pub(crate) fn remove_unknown(&self, intent: &Intent) -> Result<(), Failure> {
        for &disk in &intent.disks {
            // An error is not absence: nothing is removed because the database could not be read.
            if self.meta.read(|read| read.disk_if_known(disk))?.is_none() {
                gone(fs::remove_file(self.installation.disk_path(disk)))
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
        if intent.berths.is_empty() {
            return Ok(());
        }
        let known = self.known_machines()?;
        for berth in &intent.berths {
            if known.iter().all(|machine| machine.berth != *berth) {
                berth
                    .remove(&self.installation.paths.workspaces_dir())
                    .map_err(|error| self.installation.io("remove a machine's directory", error))?;
            }
        }
        Ok(())
    }
}

impl Undertaking<'_> {
    /// Ends the change: what `change` writes and its end are one transaction.
    pub fn finish<T>(mut self, change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError>) -> Result<T, Failure> {
        let Some(id) = self.id else { return Err(internal("an undertaking ended twice")) };
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

    /// Ends a change of which only a part was done: the rest is undone.
    pub fn finish_in_part<T>(
        mut self,
        change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError>,
    ) -> Result<T, Failure> {
        let Some(id) = self.id else { return Err(internal("an undertaking ended twice")) };
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
            tracing::warn!(%failure, "what failed could not be undone yet");
        }
        Ok(done)
    }

    /// Writes a part of the change that stays even if the rest fails.
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
            // Only QEMU knows whether the machine writes to it by now; whoever comes next asks.
            undo.disks.retain(|&disk| disk != switch.to);
        }
        let undone = in_place(|| self.workspaces.remove_unknown(&undo));
        // It stays announced: whoever comes next removes what stayed, and what was only needed for it.
        self.workspaces.abandon(&[id]);
        if let Err(failure) = undone {
            tracing::warn!(%failure, "a failed change could not be undone yet");
        }
    }
}

pub(super) fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::new(agentiso_core::Code::Internal, error.to_string())
}
