//! Garbage collection: what no vault, checkpoint, change, merge or run has is removed from the store.

use agentiso_store::{GcOptions, GcReport, Root, collect, garbage};

use crate::db::{Read, tree_of};
use crate::{Vaults, VfsError};

/// How garbage is collected.
#[derive(Clone, Copy, Debug, Default)]
pub struct GcRequest {
    /// Remove nothing.
    pub dry_run: bool,
    /// Rewrite every pack with garbage, also where it frees little.
    pub thorough: bool,
}

/// What was found and done.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct GcDone {
    /// Objects that nothing needs.
    pub garbage_objects: u64,
    /// Their size in the store.
    pub garbage_bytes: u64,
    /// What the collection did; nothing if it was a dry run.
    pub collected: Option<GcReport>,
    /// Texts that were removed from the search index.
    pub forgotten_texts: u64,
}

impl Vaults {
    /// Collects garbage. `more` names what others keep in the same store, such as working directories. It is called once,
    /// after the collection has begun, and must read its records then.
    pub fn gc(
        &self,
        request: &GcRequest,
        more: impl FnOnce() -> Result<Vec<Root>, VfsError>,
    ) -> Result<GcDone, VfsError> {
        if request.dry_run {
            let mut roots = self.records.read(|read| read.roots())?;
            roots.extend(more()?);
            let found = garbage(&self.store, roots)?;
            return Ok(GcDone {
                garbage_objects: found.objects,
                garbage_bytes: found.bytes,
                ..GcDone::default()
            });
        }
        self.records.write(|tx| tx.remove_unused_annotations())?;
        let default = GcOptions::default();
        let min_waste_percent = if request.thorough { 0 } else { default.min_waste_percent };
        let report = collect(&self.store, GcOptions { min_waste_percent }, || {
            let mut roots = self.records.read(|read| read.roots())?;
            roots.extend(more()?);
            Ok::<_, VfsError>(roots)
        })?;
        let forgotten_texts = self.tidy_search()?;
        let detail = format!("{{\"objects\":{},\"bytes\":{}}}", report.removed_objects, report.freed_bytes);
        self.audit_append(None, "gc", None, Some(&detail))?;
        Ok(GcDone {
            garbage_objects: report.removed_objects,
            garbage_bytes: report.freed_bytes,
            collected: Some(report),
            forgotten_texts,
        })
    }
}

impl Read<'_> {
    /// All trees that records name.
    pub(crate) fn roots(&self) -> Result<Vec<Root>, VfsError> {
        self.all(
            "SELECT tree FROM vaults
             UNION SELECT parent_tree FROM vaults WHERE parent_tree IS NOT NULL
             UNION SELECT before_tree FROM revisions
             UNION SELECT after_tree FROM revisions
             UNION SELECT tree FROM checkpoints
             UNION SELECT tree FROM merges
             UNION SELECT base FROM uses",
            [],
            |row| tree_of(row, 0).map(Root::Tree),
        )
    }
}
