//! A full consistency check of the database.

use agentiso_blocking::in_place;

use crate::{Meta, MetaError, Read};

/// Queries that return no rows in a consistent database. Each row describes a fault.
const FAULTS: &[&str] = &[
    "SELECT 'its ' || \"table\" || ' refer to a ' || parent || ' row that is missing' FROM pragma_foreign_key_check",
    "SELECT 'snapshot ' || snapshots.id || ' kept a disk that still changes'
     FROM snapshots JOIN disks ON disks.id = disk WHERE NOT frozen",
    "SELECT 'workspace ' || workspaces.id || ' writes to a frozen disk'
     FROM workspaces JOIN disks ON disks.id = disk WHERE frozen",
    "SELECT 'pool machine ' || pool.id || ' writes to a frozen disk'
     FROM pool JOIN disks ON disks.id = disk WHERE frozen",
    "SELECT 'disk ' || child.id || ' reads through one that still changes'
     FROM disks AS child JOIN disks AS parent ON parent.id = child.parent WHERE NOT parent.frozen",
    "SELECT 'a disk belongs to a workspace and to the pool' FROM workspaces JOIN pool USING (disk)",
    "SELECT 'the outcome of request ' || key || ' is no JSON'
     FROM idempotency WHERE outcome IS NOT NULL AND NOT json_valid(outcome)",
    "SELECT 'the detail of event ' || id || ' is no JSON' FROM timeline WHERE NOT json_valid(detail)",
];

impl Meta {
    /// Reads every page and row and reports the first fault. The time is proportional to the size of the file.
    pub fn verify(&self) -> Result<(), MetaError> {
        match in_place(|| self.read(first_fault))? {
            Some(fault) => Err(MetaError::damaged(self.path(), fault)),
            None => Ok(()),
        }
    }
}

fn first_fault(read: &Read<'_>) -> Result<Option<String>, MetaError> {
    let file = read.one("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))?;
    if let Some(fault) = file.filter(|answer| answer != "ok") {
        return Ok(Some(fault));
    }
    for question in FAULTS {
        let fault = read.one(question, [], |row| row.get(0))?;
        if fault.is_some() {
            return Ok(fault);
        }
    }
    // Fails on rows that cannot be parsed.
    read.workspaces()?.iter().try_for_each(|workspace| read.snapshots(workspace.id).map(drop))?;
    read.memories()?.iter().try_for_each(|memory| read.packs_of(memory.id).map(drop))?;
    read.disks()?;
    read.pool()?;
    read.operations()?;
    read.sessions()?;
    read.all_settings()?;
    read.forwards()?;
    read.router_position()?;
    Ok(None)
}
