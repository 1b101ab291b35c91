//! Disks, their backing chains, and what refers to them.

use agentiso_core::{DiskId, SnapshotId, WorkspaceId};
use rusqlite::Row;

use crate::stored::{Stored, get, get_if_any};
use crate::{MetaError, Read, Tx};

/// A disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// Also the name of its file.
    pub id: DiskId,
    /// The backing disk.
    pub parent: Option<DiskId>,
    /// Whether it is read-only from now on.
    pub frozen: bool,
    /// Number of levels merged into it; 1 if none were.
    pub span: u32,
    /// The workspace it was created for. Other workspaces may use it now.
    pub workspace: Option<WorkspaceId>,
}

/// Everything that refers to a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUsers {
    /// Workspaces that write to it.
    pub workspaces: Vec<WorkspaceId>,
    /// Snapshots that contain it.
    pub snapshots: Vec<SnapshotId>,
    /// Pool machines that write to it.
    pub pool: Vec<WorkspaceId>,
    /// Disks that it backs.
    pub children: Vec<DiskId>,
}

impl DiskUsers {
    /// Whether one other disk is the only reference, so that the two can be merged.
    pub fn serves_only_one_disk(&self) -> bool {
        self.workspaces.is_empty()
            && self.snapshots.is_empty()
            && self.pool.is_empty()
            && self.children.len() == 1
    }
}

impl Read<'_> {
    /// Returns a disk. Fails if it does not exist.
    pub fn disk(&self, id: DiskId) -> Result<Disk, MetaError> {
        self.one("SELECT * FROM disks WHERE id = ?1", [Stored(id)], read)?
            .ok_or_else(|| MetaError::missing("disk", id))
    }

    /// Returns a disk, or `None` if it does not exist. An error never means absence.
    pub fn disk_if_known(&self, id: DiskId) -> Result<Option<Disk>, MetaError> {
        self.one("SELECT * FROM disks WHERE id = ?1", [Stored(id)], read)
    }

    /// Returns all disks.
    pub fn disks(&self) -> Result<Vec<Disk>, MetaError> {
        self.all("SELECT * FROM disks ORDER BY id", [], read)
    }

    /// Returns the disks that a disk backs.
    pub fn children_of(&self, id: DiskId) -> Result<Vec<Disk>, MetaError> {
        self.all("SELECT * FROM disks WHERE parent = ?1 ORDER BY id", [Stored(id)], read)
    }

    /// Returns a disk and its backing chain, top first.
    pub fn chain(&self, id: DiskId) -> Result<Vec<Disk>, MetaError> {
        let chain = self.all(
            "WITH RECURSIVE chain (link, level) AS (
               VALUES (?1, 0)
               UNION ALL
               SELECT parent, level + 1 FROM chain JOIN disks ON disks.id = link WHERE parent IS NOT NULL
             )
             SELECT disks.* FROM chain JOIN disks ON disks.id = link ORDER BY level",
            [Stored(id)],
            read,
        )?;
        if chain.is_empty() { Err(MetaError::missing("disk", id)) } else { Ok(chain) }
    }

    /// Returns everything that refers to a disk.
    pub fn disk_users(&self, id: DiskId) -> Result<DiskUsers, MetaError> {
        Ok(DiskUsers {
            workspaces: self
                .all("SELECT id FROM workspaces WHERE disk = ?1", [Stored(id)], |row| get(row, "id"))?,
            snapshots: self.all(
                "SELECT id FROM snapshots WHERE disk = ?1 ORDER BY id",
                [Stored(id)],
                |row| get(row, "id"),
            )?,
            pool: self.all("SELECT id FROM pool WHERE disk = ?1", [Stored(id)], |row| get(row, "id"))?,
            children: self.children_of(id)?.into_iter().map(|child| child.id).collect(),
        })
    }

    /// Returns the unreferenced disks: no workspace, snapshot, pool machine or other disk refers to them.
    ///
    /// Removing them may make others unreferenced.
    pub fn unneeded_disks(&self) -> Result<Vec<Disk>, MetaError> {
        self.all(
            "SELECT * FROM disks AS unneeded
             WHERE NOT EXISTS (SELECT 1 FROM workspaces WHERE disk = unneeded.id)
               AND NOT EXISTS (SELECT 1 FROM snapshots WHERE disk = unneeded.id)
               AND NOT EXISTS (SELECT 1 FROM pool WHERE disk = unneeded.id)
               AND NOT EXISTS (SELECT 1 FROM disks WHERE parent = unneeded.id)
             ORDER BY id",
            [],
            read,
        )
    }
}

impl Tx<'_> {
    /// Adds a disk. Its parent must exist.
    pub fn insert_disk(&self, disk: &Disk) -> Result<(), MetaError> {
        let Disk { id, parent, frozen, span, workspace } = disk;
        self.execute(
            "INSERT INTO disks (id, parent, frozen, span, workspace) VALUES (?1, ?2, ?3, ?4, ?5)",
            (Stored(*id), parent.map(Stored), frozen, span, workspace.map(Stored)),
        )?;
        Ok(())
    }

    /// Marks a disk as read-only.
    pub fn freeze_disk(&self, id: DiskId) -> Result<(), MetaError> {
        self.change_one("disk", id, "UPDATE disks SET frozen = 1 WHERE id = ?1", [Stored(id)])
    }

    /// Changes the backing disk, and the number of levels merged into the disk.
    pub fn set_disk_parent(&self, id: DiskId, parent: Option<DiskId>, span: u32) -> Result<(), MetaError> {
        if let Some(parent) = parent
            && self.chain(parent)?.iter().any(|link| link.id == id)
        {
            return Err(MetaError::WrongDisk { disk: parent, wanted: "no descendant of the other" });
        }
        let sql = "UPDATE disks SET parent = ?2, span = ?3 WHERE id = ?1";
        self.change_one("disk", id, sql, (Stored(id), parent.map(Stored), span))
    }

    /// Removes an unreferenced disk.
    pub fn remove_disk(&self, id: DiskId) -> Result<(), MetaError> {
        self.remove_unneeded("disk", id, "DELETE FROM disks WHERE id = ?1", [Stored(id)])
    }

    pub(crate) fn require_writable(&self, id: DiskId) -> Result<(), MetaError> {
        if self.disk(id)?.frozen {
            Err(MetaError::WrongDisk { disk: id, wanted: "writable" })
        } else {
            Ok(())
        }
    }

    pub(crate) fn require_frozen(&self, id: DiskId) -> Result<(), MetaError> {
        if self.disk(id)?.frozen { Ok(()) } else { Err(MetaError::WrongDisk { disk: id, wanted: "frozen" }) }
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Disk> {
    Ok(Disk {
        id: get(row, "id")?,
        parent: get_if_any(row, "parent")?,
        frozen: row.get("frozen")?,
        span: row.get("span")?,
        workspace: get_if_any(row, "workspace")?,
    })
}
