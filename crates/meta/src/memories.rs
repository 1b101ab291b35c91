//! The memories of snapshots, and the packs that hold their pages.

use agentiso_core::MemoryId;
use jiff::Timestamp;
use rusqlite::Row;
use serde_json::Value;

use crate::stored::{Stored, get};
use crate::{MetaError, Read, Tx};

/// The memory part of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Which one it is; names its files.
    pub id: MemoryId,
    /// The memory that lies under it, by its key.
    pub base: String,
    /// When it was made, to the microsecond.
    pub created: Timestamp,
    /// How many pages differ from the base.
    pub pages: u64,
    /// All else, in its owner's words.
    pub about: Value,
}

impl Read<'_> {
    /// Returns a memory.
    pub fn memory(&self, id: MemoryId) -> Result<Memory, MetaError> {
        self.one("SELECT * FROM memories WHERE id = ?1", [Stored(id)], read)?
            .ok_or_else(|| MetaError::missing("memory", id))
    }

    /// Returns a memory, or `None` if there is no such memory. An error is never taken for absence.
    pub fn memory_if_known(&self, id: MemoryId) -> Result<Option<Memory>, MetaError> {
        self.one("SELECT * FROM memories WHERE id = ?1", [Stored(id)], read)
    }

    /// Returns every memory there is, oldest first.
    pub fn memories(&self) -> Result<Vec<Memory>, MetaError> {
        self.all("SELECT * FROM memories ORDER BY created, id", [], read)
    }

    /// Returns the packs a memory's pages are in, each by the memory it was written for.
    pub fn packs_of(&self, memory: MemoryId) -> Result<Vec<MemoryId>, MetaError> {
        let sql = "SELECT pack FROM memory_packs WHERE memory = ?1 ORDER BY pack";
        self.all(sql, [Stored(memory)], |row| get(row, "pack"))
    }

    /// Returns the memories that have pages in a pack: while there are any, the pack is kept.
    pub fn memories_using(&self, pack: MemoryId) -> Result<Vec<MemoryId>, MetaError> {
        let sql = "SELECT memory FROM memory_packs WHERE pack = ?1 ORDER BY memory";
        self.all(sql, [Stored(pack)], |row| get(row, "memory"))
    }

    /// Returns every pack that some memory has pages in: no other is to be kept.
    pub fn packs(&self) -> Result<Vec<MemoryId>, MetaError> {
        self.all("SELECT DISTINCT pack FROM memory_packs ORDER BY pack", [], |row| get(row, "pack"))
    }

    /// Returns the memories that no snapshot refers to.
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
    /// Adds a memory and says which packs its pages are in, its own among them if it has one.
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

    /// Removes a memory that no snapshot refers to.
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
