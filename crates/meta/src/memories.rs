//! Memory images of snapshots, and the packs that contain their pages.

use agentiso_core::MemoryId;
use jiff::Timestamp;
use rusqlite::Row;
use serde_json::Value;

use crate::stored::{Stored, get};
use crate::{MetaError, Read, Tx};

/// The memory image of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Also the name of its files.
    pub id: MemoryId,
    /// Key of the base image it is a difference to.
    pub base: String,
    /// Creation time, to the microsecond.
    pub created: Timestamp,
    /// Number of pages that differ from the base.
    pub pages: u64,
    /// Further data; its format belongs to the runtime.
    pub about: Value,
}

impl Read<'_> {
    /// Returns a memory image. Fails if it does not exist.
    pub fn memory(&self, id: MemoryId) -> Result<Memory, MetaError> {
        self.one("SELECT * FROM memories WHERE id = ?1", [Stored(id)], read)?
            .ok_or_else(|| MetaError::missing("memory", id))
    }

    /// Returns a memory image, or `None` if it does not exist. An error never means absence.
    pub fn memory_if_known(&self, id: MemoryId) -> Result<Option<Memory>, MetaError> {
        self.one("SELECT * FROM memories WHERE id = ?1", [Stored(id)], read)
    }

    /// Returns all memory images, oldest first.
    pub fn memories(&self) -> Result<Vec<Memory>, MetaError> {
        self.all("SELECT * FROM memories ORDER BY created, id", [], read)
    }

    /// Returns the packs that contain the image's pages. A pack has the id of the image it was written for.
    pub fn packs_of(&self, memory: MemoryId) -> Result<Vec<MemoryId>, MetaError> {
        let sql = "SELECT pack FROM memory_packs WHERE memory = ?1 ORDER BY pack";
        self.all(sql, [Stored(memory)], |row| get(row, "pack"))
    }

    /// Returns the images with pages in a pack. The pack is kept while there are any.
    pub fn memories_using(&self, pack: MemoryId) -> Result<Vec<MemoryId>, MetaError> {
        let sql = "SELECT memory FROM memory_packs WHERE pack = ?1 ORDER BY memory";
        self.all(sql, [Stored(pack)], |row| get(row, "memory"))
    }

    /// Returns all packs in use. Any other can be removed.
    pub fn packs(&self) -> Result<Vec<MemoryId>, MetaError> {
        self.all("SELECT DISTINCT pack FROM memory_packs ORDER BY pack", [], |row| get(row, "pack"))
    }

    /// Returns the images that no snapshot refers to.
    pub fn unneeded_memories(&self) -> Result<Vec<Memory>, MetaError> {
        self.all(
            "SELECT * FROM memories AS unneeded
             WHERE NOT EXISTS (SELECT 1 FROM snapshots WHERE memory = unneeded.id)
             ORDER BY created, id",
            [],
            read,
        )
    }
}

impl Tx<'_> {
    /// Adds an image with the packs that contain its pages, including its own if it has one.
    pub fn insert_memory(&self, memory: &Memory, packs: &[MemoryId]) -> Result<(), MetaError> {
        let Memory { id, base, created, pages, about } = memory;
        let pages = i64::try_from(*pages).unwrap_or(i64::MAX);
        self.execute(
            "INSERT INTO memories (id, base, created, pages, about) VALUES (?1, ?2, ?3, ?4, ?5)",
            (Stored(*id), base, Stored(*created), pages, Stored(about)),
        )?;
        for pack in packs {
            let sql = "INSERT OR IGNORE INTO memory_packs (memory, pack) VALUES (?1, ?2)";
            self.execute(sql, (Stored(*id), Stored(*pack)))?;
        }
        Ok(())
    }

    /// Removes an image that no snapshot refers to.
    pub fn remove_memory(&self, id: MemoryId) -> Result<(), MetaError> {
        self.remove_unneeded("memory", id, "DELETE FROM memories WHERE id = ?1", [Stored(id)])
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Memory> {
    Ok(Memory {
        id: get(row, "id")?,
        base: row.get("base")?,
        created: get(row, "created")?,
        pages: row.get::<_, i64>("pages")?.unsigned_abs(),
        about: get(row, "about")?,
    })
}
