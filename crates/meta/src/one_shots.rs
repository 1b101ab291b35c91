//! Workspaces that exist for one command.

use agentiso_core::WorkspaceId;

use crate::stored::{Stored, get};
use crate::{MetaError, Read, Tx};

impl Read<'_> {
    /// Returns the workspaces that exist for one command.
    pub fn one_shots(&self) -> Result<Vec<WorkspaceId>, MetaError> {
        self.all("SELECT workspace FROM one_shots ORDER BY workspace", [], |row| get(row, "workspace"))
    }
}

impl Tx<'_> {
    /// Records that a workspace exists for one command. The record goes with the workspace.
    pub fn mark_one_shot(&self, workspace: WorkspaceId) -> Result<(), MetaError> {
        self.change_workspace(
            workspace,
            "INSERT INTO one_shots (workspace) SELECT id FROM workspaces WHERE id = ?1",
            [Stored(workspace)],
        )
    }
}
