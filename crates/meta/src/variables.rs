//! The variables of workspaces: their names, and who set them. Values are never stored.

use agentiso_core::WorkspaceId;
use rusqlite::Row;

use crate::stored::Stored;
use crate::{MetaError, Read, Tx, Variable};

impl Read<'_> {
    /// Returns the variables of a workspace, sorted by name.
    pub fn variables(&self, workspace: WorkspaceId) -> Result<Vec<Variable>, MetaError> {
        let sql = "SELECT * FROM variables WHERE workspace = ?1 ORDER BY name";
        self.all(sql, [Stored(workspace)], read)
    }
}

impl Tx<'_> {
    /// Replaces the variables of a workspace.
    pub fn set_variables(&self, workspace: WorkspaceId, variables: &[Variable]) -> Result<(), MetaError> {
        self.workspace(workspace)?;
        self.execute("DELETE FROM variables WHERE workspace = ?1", [Stored(workspace)])?;
        for Variable { name, by_operator, waiting } in variables {
            self.execute(
                "INSERT INTO variables (workspace, name, by_operator, waiting) VALUES (?1, ?2, ?3, ?4)",
                (Stored(workspace), name, by_operator, waiting),
            )?;
        }
        Ok(())
    }

    /// Removes the variables of a workspace that sessions have set.
    pub fn forget_session_variables(&self, workspace: WorkspaceId) -> Result<(), MetaError> {
        let sql = "DELETE FROM variables WHERE workspace = ?1 AND by_operator = 0";
        self.execute(sql, [Stored(workspace)])?;
        Ok(())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Variable> {
    Ok(Variable {
        name: row.get("name")?,
        by_operator: row.get("by_operator")?,
        waiting: row.get("waiting")?,
    })
}
