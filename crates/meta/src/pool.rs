//! Machines that are ready before anyone asked for them.

use agentiso_core::{DiskId, ImageName, Resources, WorkspaceId};
use jiff::Timestamp;
use rusqlite::{Row, named_params};
use serde_json::Value;

use crate::stored::{Stored, get, resources};
use crate::{MetaError, Read, Tx};

/// A machine in the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolMachine {
    /// The workspace it will be.
    pub id: WorkspaceId,
    /// Everything a request must agree with to be given it, as one key.
    pub shape: String,
    /// The image it was made of.
    pub image: ImageName,
    /// Which version of the image that was.
    pub image_identity: String,
    /// How large it is.
    pub resources: Resources,
    /// The disk it writes to.
    pub disk: DiskId,
    /// The machine, in its owner's words.
    pub machine: Value,
    /// How it was started.
    pub tier: String,
    /// When it was made, to the microsecond.
    pub created: Timestamp,
}

impl Read<'_> {
    /// Returns every machine in the pool, oldest first.
    pub fn pool(&self) -> Result<Vec<PoolMachine>, MetaError> {
        self.all("SELECT * FROM pool ORDER BY created, id", [], read)
    }

    /// Returns how many machines of each shape there are; shapes with none are left out.
    pub fn pool_counts(&self) -> Result<Vec<(String, u32)>, MetaError> {
        let sql = "SELECT shape, count(*) FROM pool GROUP BY shape ORDER BY shape";
        self.all(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }
}

impl Tx<'_> {
    /// Adds a machine to the pool. Its disk must be there.
    pub fn insert_pool_machine(&self, machine: &PoolMachine) -> Result<(), MetaError> {
        self.require_writable(machine.disk)?;
        self.execute(
            "INSERT INTO pool (id, shape, image, image_identity, vcpus, memory_mb, disk_gb, disk, machine, tier,
               created)
             VALUES (:id, :shape, :image, :image_identity, :vcpus, :memory_mb, :disk_gb, :disk, :machine, :tier,
               :created)",
            named_params! {
                ":id": Stored(machine.id),
                ":shape": machine.shape,
                ":image": machine.image.as_str(),
                ":image_identity": machine.image_identity,
                ":vcpus": machine.resources.vcpus,
                ":memory_mb": machine.resources.memory_mb,
                ":disk_gb": machine.resources.disk_gb,
                ":disk": Stored(machine.disk),
                ":machine": Stored(&machine.machine),
                ":tier": machine.tier,
                ":created": Stored(machine.created),
            },
        )?;
        Ok(())
    }

    /// Takes the oldest machine of a shape out of the pool, if there is one.
    ///
    /// In the same transaction its new owner adds the workspace it becomes: then no other can have it, and it is
    /// in the pool again should anything fail.
    pub fn claim(&self, shape: &str) -> Result<Option<PoolMachine>, MetaError> {
        let sql = "SELECT * FROM pool WHERE shape = ?1 ORDER BY created, id LIMIT 1";
        let Some(machine) = self.one(sql, [shape], read)? else {
            return Ok(None);
        };
        self.remove_pool_machine(machine.id)?;
        Ok(Some(machine))
    }

    /// Takes a machine out of the pool. Its disk stays until it is removed as unneeded.
    pub fn remove_pool_machine(&self, id: WorkspaceId) -> Result<(), MetaError> {
        self.change_one("pool machine", id, "DELETE FROM pool WHERE id = ?1", [Stored(id)])
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<PoolMachine> {
    Ok(PoolMachine {
        id: get(row, "id")?,
        shape: row.get("shape")?,
        image: get(row, "image")?,
        image_identity: row.get("image_identity")?,
        resources: resources(row)?,
        disk: get(row, "disk")?,
        machine: get(row, "machine")?,
        tier: row.get("tier")?,
        created: get(row, "created")?,
    })
}
