//! Sets of tags and metadata. The empty set has no row.

use std::sync::Arc;

use agentiso_store::{ObjectId, ObjectKind};

use crate::VfsError;
use crate::annotations::Annotations;
use crate::db::{Read, Tx, map_error};

impl Read<'_> {
    pub(crate) fn annotations(&self, id: Option<i64>) -> Result<Arc<Annotations>, VfsError> {
        let Some(id) = id else { return Ok(Arc::default()) };
        let found = self.one("SELECT data FROM annotation_sets WHERE id = ?1", [id], |row| {
            let data = row.get_ref(0)?.as_blob()?;
            Annotations::decode(data).ok_or_else(|| map_error(0, "it is not a set of tags and metadata"))
        })?;
        found
            .map(Arc::new)
            .ok_or_else(|| VfsError::from(map_error(0, "a set of tags and metadata is missing")))
    }
}

impl Tx<'_> {
    pub(crate) fn store_annotations(&self, set: &Annotations) -> Result<Option<i64>, VfsError> {
        if set.is_empty() {
            return Ok(None);
        }
        let data = set.encode()?;
        let hash = ObjectId::of(ObjectKind::Blob, &data);
        self.execute(
            "INSERT INTO annotation_sets (hash, data) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING",
            (hash.as_bytes(), &data),
        )?;
        self.one("SELECT id FROM annotation_sets WHERE hash = ?1", [hash.as_bytes()], |row| row.get(0))
    }

    /// Removes the sets that nothing refers to; returns how many.
    pub(crate) fn remove_unused_annotations(&self) -> Result<u64, VfsError> {
        let removed = self.execute(
            "DELETE FROM annotation_sets WHERE id NOT IN (
                 SELECT annotations FROM vaults WHERE annotations IS NOT NULL
                 UNION SELECT parent_annotations FROM vaults WHERE parent_annotations IS NOT NULL
                 UNION SELECT before_annotations FROM revisions WHERE before_annotations IS NOT NULL
                 UNION SELECT after_annotations FROM revisions WHERE after_annotations IS NOT NULL
                 UNION SELECT annotations FROM checkpoints WHERE annotations IS NOT NULL
                 UNION SELECT annotations FROM merges WHERE annotations IS NOT NULL
                 UNION SELECT base_annotations FROM uses WHERE base_annotations IS NOT NULL)",
            [],
        )?;
        Ok(removed as u64)
    }
}
