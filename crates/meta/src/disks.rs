//! Disks: which reads through which, and who needs them.

use agentiso_core::{DiskId, SnapshotId, WorkspaceId};
use rusqlite::Row;

use crate::stored::{Stored, get, get_if_any};
use crate::{MetaError, Read, Tx};

/// A disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// Which one it is; names its file.
    pub id: DiskId,
    /// The disk it reads through.
    pub parent: Option<DiskId>,
    /// Whether it must not change any more.
    pub frozen: bool,
    /// How many levels were merged into it: 1 if none were.
    pub span: u32,
    /// Whom it was made for. Says nothing about who needs it now.
    pub workspace: Option<WorkspaceId>,
}

/// Everything that needs a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUsers {
    /// The workspaces that write to it.
    pub workspaces: Vec<WorkspaceId>,
    /// The snapshots that kept it.
    pub snapshots: Vec<SnapshotId>,
    /// The pool machines that write to it.
    pub pool: Vec<WorkspaceId>,
    /// The disks that read through it.
    pub children: Vec<DiskId>,
}

impl DiskUsers {
    /// Whether nothing but one other disk needs it: then the two can become one.
    pub fn serves_only_one_disk(&self) -> bool {
        self.workspaces.is_empty()
            && self.snapshots.is_empty()
            && self.pool.is_empty()
            && self.children.len() == 1
    }
}

impl Read<'_> {
    /// Returns a disk.
    pub fn disk(&self, id: DiskId) -> Result<Disk, MetaError> {
        self.one("SELECT * FROM disks WHERE id = ?1", [Stored(id)], read)?
            .ok_or_else(|| MetaError::missing("disk", id))
    }

    /// Returns a disk, or `None` if there is no such disk. An error is never taken for absence.
    pub fn disk_if_known(&self, id: DiskId) -> Result<Option<Disk>, MetaError> {
        self.one("SELECT * FROM disks WHERE id = ?1", [Stored(id)], read)
    }

    /// Returns every disk there is.
    pub fn disks(&self) -> Result<Vec<Disk>, MetaError> {
        self.all("SELECT * FROM disks ORDER BY id", [], read)
    }

    /// Returns the disks that read through a disk.
    pub fn children_of(&self, id: DiskId) -> Result<Vec<Disk>, MetaError> {
        self.all("SELECT * FROM disks WHERE parent = ?1 ORDER BY id", [Stored(id)], read)
    }

    /// Returns a disk and every disk it reads through, in the order they are read.
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

    /// Returns everything that needs a disk.
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

    /// Returns the disks that nothing needs: no workspace, snapshot, pool machine or other disk.
    ///
    /// Removing them may leave others unneeded in their turn.
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
    /// Adds a disk. Its parent must be there.
    pub fn insert_disk(&self, disk: &Disk) -> Result<(), MetaError> {
        let Disk { id, parent, frozen, span, workspace } = disk;
        self.execute(
            "INSERT INTO disks (id, parent, frozen, span, workspace) VALUES (?1, ?2, ?3, ?4, ?5)",
            (Stored(*id), parent.map(Stored), frozen, span, workspace.map(Stored)),
        )?;
        Ok(())
    }

    /// Notes that a disk must not change any more.
    pub fn freeze_disk(&self, id: DiskId) -> Result<(), MetaError> {
        self.change_one("disk", id, "UPDATE disks SET frozen = 1 WHERE id = ?1", [Stored(id)])
    }

    /// Notes that a disk now reads through another, and how many levels are merged into it.
    pub fn set_disk_parent(&self, id: DiskId, parent: Option<DiskId>, span: u32) -> Result<(), MetaError> {
        if let Some(parent) = parent
            && self.chain(parent)?.iter().any(|link| link.id == id)
        {
            return Err(MetaError::WrongDisk { disk: parent, wanted: "no descendant of the other" });
        }
        let sql = "UPDATE disks SET parent = ?2, span = ?3 WHERE id = ?1";
        self.change_one("disk", id, sql, (Stored(id), parent.map(Stored), span))
    }

    /// Removes a disk that nothing needs.
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
