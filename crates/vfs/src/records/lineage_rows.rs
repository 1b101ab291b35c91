//! A vault's history is its own, and before that the history of what it was forked from.

use crate::VfsError;
use crate::db::Read;
use crate::records::VaultRow;

/// A stretch of history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Segment {
    /// The vault whose history it is.
    pub(crate) vault: i64,
    /// The last change that counts.
    pub(crate) to: u64,
}

/// More generations than anybody makes; ends a circle in damaged records.
const MAX_GENERATIONS: usize = 10_000;

impl Read<'_> {
    /// The history of a vault, its own first.
    pub(crate) fn segments(&self, row: &VaultRow) -> Result<Vec<Segment>, VfsError> {
        let mut segments = vec![Segment { vault: row.key, to: row.revision }];
        let mut parent = row.parent;
        while let Some(above) = parent.filter(|_| segments.len() < MAX_GENERATIONS) {
            segments.push(Segment { vault: above.key, to: above.revision });
            parent = self.vault_by_key(above.key)?.and_then(|row| row.parent);
        }
        Ok(segments)
    }
}
