//! Pooled machines: started in advance and not yet assigned to a workspace.

use agentiso_core::{DiskId, ImageName, Resources, WorkspaceId};
use jiff::Timestamp;
use rusqlite::{Row, named_params};
use serde_json::Value;

use crate::stored::{Stored, get, resources};
use crate::{MetaError, Read, Tx};

/// A pooled machine.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolMachine {
    /// The id of the workspace it will become.
    pub id: WorkspaceId,
    /// Everything that a request must match to get this machine, as one key.
    pub shape: String,
    /// The image it was created from.
    pub image: ImageName,
    /// The version of that image.
    pub image_identity: String,
    /// Its vCPUs, memory and disk size.
    pub resources: Resources,
    /// The disk it writes to.
    pub disk: DiskId,
    /// Description of the machine; the format belongs to the runtime.
    pub machine: Value,
    /// How it was started.
    pub tier: String,
    /// Creation time, to the microsecond.
    pub created: Timestamp,
}

impl Read<'_> {
    /// Returns all pooled machines, oldest first.
    pub fn pool(&self) -> Result<Vec<PoolMachine>, MetaError> {
        self.all("SELECT * FROM pool ORDER BY created, id", [], read)
    }

    /// Returns the number of machines per shape. Omits shapes without any.
    pub fn pool_counts(&self) -> Result<Vec<(String, u32)>, MetaError> {
        let sql = "SELECT shape, count(*) FROM pool GROUP BY shape ORDER BY shape";
        self.all(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }
}

impl Tx<'_> {
    /// Adds a machine to the pool. Its disk must exist.
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
    /// The caller adds the new workspace in the same transaction, so that no other caller can get the machine, and it
    /// is back in the pool if anything fails.
    pub fn claim(&self, shape: &str) -> Result<Option<PoolMachine>, MetaError> {
        let sql = "SELECT * FROM pool WHERE shape = ?1 ORDER BY created, id LIMIT 1";
        let Some(machine) = self.one(sql, [shape], read)? else {
            return Ok(None);
        };
        self.remove_pool_machine(machine.id)?;
        Ok(Some(machine))
    }

    /// Takes a machine out of the pool. Its disk stays until it is removed as unreferenced.
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
