//! Forwards: ports of the host that lead into workspaces.

use agentiso_core::WorkspaceId;
use jiff::Timestamp;
use rusqlite::Row;

use crate::stored::{Stored, get};
use crate::{MetaError, Read, Tx};

/// A port of the host that leads into a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Forward {
    /// Where it leads.
    pub workspace: WorkspaceId,
    /// To which port there. Each has one forward at most.
    pub guest_port: u16,
    /// The port of the host. No two forwards share one.
    pub host_port: u16,
    /// When it was made, to the microsecond.
    pub created: Timestamp,
}

impl Read<'_> {
    /// Returns the forwards of a workspace, by the port they lead to.
    pub fn forwards_of(&self, workspace: WorkspaceId) -> Result<Vec<Forward>, MetaError> {
        let sql = "SELECT * FROM forwards WHERE workspace = ?1 ORDER BY guest_port";
        self.all(sql, [Stored(workspace)], read)
    }

    /// Returns every forward there is, by workspace and by the port they lead to.
    pub fn forwards(&self) -> Result<Vec<Forward>, MetaError> {
        self.all("SELECT * FROM forwards ORDER BY workspace, guest_port", [], read)
    }
}

impl Tx<'_> {
    /// Adds a forward. Its workspace must be there, and neither port may have one.
    pub fn insert_forward(&self, forward: &Forward) -> Result<(), MetaError> {
        let Forward { workspace, guest_port, host_port, created } = forward;
        self.workspace(*workspace)?;
        let sql = "SELECT host_port FROM forwards WHERE workspace = ?1 AND guest_port = ?2";
        if let Some(host_port) = self.one(sql, (Stored(*workspace), guest_port), |row| row.get(0))? {
            return Err(MetaError::ForwardExists { guest_port: *guest_port, host_port });
        }
        let sql = "SELECT name FROM forwards JOIN workspaces ON workspaces.id = forwards.workspace
            WHERE host_port = ?1";
        if let Some(workspace) = self.one(sql, [host_port], |row| row.get(0))? {
            return Err(MetaError::PortTaken { host_port: *host_port, workspace });
        }
        self.execute(
            "INSERT INTO forwards (workspace, guest_port, host_port, created) VALUES (?1, ?2, ?3, ?4)",
            (Stored(*workspace), guest_port, host_port, Stored(*created)),
        )?;
        Ok(())
    }

    /// Removes a forward and returns what it was.
    pub fn remove_forward(&self, workspace: WorkspaceId, guest_port: u16) -> Result<Forward, MetaError> {
        self.workspace(workspace)?;
        let sql = "DELETE FROM forwards WHERE workspace = ?1 AND guest_port = ?2 RETURNING *";
        self.one(sql, (Stored(workspace), guest_port), read)?.ok_or(MetaError::ForwardNotFound { guest_port })
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Forward> {
    Ok(Forward {
        workspace: get(row, "workspace")?,
        guest_port: row.get("guest_port")?,
        host_port: row.get("host_port")?,
        created: get(row, "created")?,
    })
}
