//! Port forwards from the host to workspaces.

use agentiso_core::WorkspaceId;
use rusqlite::Row;

use crate::stored::{Stored, get, get_if_any};
use crate::{Forward, MetaError, Read, Tx};

impl Read<'_> {
    /// Returns the forwards of a workspace, sorted by guest port and host port.
    pub fn forwards_of(&self, workspace: WorkspaceId) -> Result<Vec<Forward>, MetaError> {
        let sql = "SELECT * FROM forwards WHERE workspace = ?1 ORDER BY guest_port, host_port";
        self.all(sql, [Stored(workspace)], read)
    }

    /// Returns all forwards, sorted by workspace, guest port and host port.
    pub fn forwards(&self) -> Result<Vec<Forward>, MetaError> {
        self.all("SELECT * FROM forwards ORDER BY workspace, guest_port, host_port", [], read)
    }
}

impl Tx<'_> {
    /// Adds a forward. Its workspaces must exist and its host port must be free.
    pub fn insert_forward(&self, forward: &Forward) -> Result<(), MetaError> {
        let Forward { workspace, to, guest_port, host_port, created } = forward;
        self.workspace(*workspace)?;
        to.map(|to| self.workspace(to)).transpose()?;
        let sql = "SELECT 1 FROM forwards WHERE host_port = ?1";
        if self.one(sql, [host_port], |row| row.get::<_, i64>(0))?.is_some() {
            return Err(MetaError::PortTaken { host_port: *host_port });
        }
        self.execute(
            "INSERT INTO forwards (workspace, towards, guest_port, host_port, created) VALUES (?1, ?2, ?3, ?4, ?5)",
            (Stored(*workspace), to.map(Stored), guest_port, host_port, Stored(*created)),
        )?;
        Ok(())
    }

    /// Removes the forward of a host port if it belongs to the workspace. Returns whether there was one.
    pub fn remove_forward(&self, workspace: WorkspaceId, host_port: u16) -> Result<bool, MetaError> {
        self.workspace(workspace)?;
        let sql = "DELETE FROM forwards WHERE workspace = ?1 AND host_port = ?2";
        Ok(self.execute(sql, (Stored(workspace), host_port))? > 0)
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Forward> {
    Ok(Forward {
        workspace: get(row, "workspace")?,
        to: get_if_any(row, "towards")?,
        guest_port: row.get("guest_port")?,
        host_port: row.get("host_port")?,
        created: get(row, "created")?,
    })
}
