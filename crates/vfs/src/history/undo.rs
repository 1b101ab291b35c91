//! Undo and redo of changes of a vault, one after the other. Both are changes themselves, so nothing is lost by them.
//!
//! ```text
//! change 1, change 2, undo (of 2), undo (of 1), redo (of the second undo), undo (of 1), ...
//! ```

use std::sync::Arc;

use crate::annotations::Annotations;
use crate::commit::{Begun, Proposal};
use crate::db::Read;
use crate::model::{Changed, Note};
use crate::records::{RevisionRow, Segment};
use crate::state::State;
use crate::{Vaults, VfsError};

const UNDO: &str = "undo";
const REDO: &str = "redo";

/// What was taken back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Undone {
    /// The change of the vault.
    pub changed: Changed,
    /// The earliest change that was undone, or the undo that was taken back.
    pub target: u64,
    /// What it was.
    pub operation: String,
}

impl Vaults {
    /// Takes back the last changes that are not taken back yet.
    pub fn undo(&self, vault: &str, count: u64) -> Result<Undone, VfsError> {
        if count == 0 {
            return Err(VfsError::invalid("the number of changes", "it must be at least 1"));
        }
        self.go_back(vault, UNDO, |read, vault, line, revision| {
            let mut found = None;
            let mut at = revision;
            for _ in 0..count {
                let Some(row) = effective(read, line, at)?.filter(|row| row.vault == vault) else {
                    return Ok(None);
                };
                at = row.revision - 1;
                found = Some(row);
            }
            Ok(found)
        })
    }

    /// Takes back the last undo, unless the vault was changed since.
    pub fn redo(&self, vault: &str) -> Result<Undone, VfsError> {
        self.go_back(vault, REDO, |read, vault, line, revision| {
            let mut at = revision;
            loop {
                let row = read.revision(line, at)?.filter(|row| row.vault == vault);
                let Some(row) = row else { return Ok(None) };
                match row.operation.as_str() {
                    UNDO => return Ok(Some(row)),
                    // What a redo took back is an undo; the next one to take back is before it.
                    REDO => at = row.target.unwrap_or(1) - 1,
                    _ => return Ok(None),
                }
            }
        })
    }

    /// Returns to the state before the change that `choose` finds.
    fn go_back(
        &self,
        vault: &str,
        word: &'static str,
        choose: impl Fn(&Read<'_>, i64, &[Segment], u64) -> Result<Option<RevisionRow>, VfsError>,
    ) -> Result<Undone, VfsError> {
        let mut chosen: Option<(u64, String)> = None;
        let edit = |_: &agentiso_store::Session, begun: &Begun| {
            let nothing = || VfsError::NothingTo { verb: word, vault: begun.row.shown() };
            let (row, annotations): (RevisionRow, Arc<Annotations>) = self.records.read(|read| {
                let line = read.segments(&begun.row)?;
                let row = choose(read, begun.row.key, &line, begun.row.revision)?.ok_or_else(nothing)?;
                let annotations = read.annotations(row.before_annotations)?;
                Ok((row, annotations))
            })?;
            chosen = Some((row.revision, row.operation));
            let state = State { tree: row.before, annotations };
            Ok(Proposal { is_return: true, target: Some(row.revision), ..Proposal::new(state) })
        };
        let (changed, ()) = self.commit(vault, &Note::new(word), edit, |_| Ok(()))?;
        let (target, operation) = chosen.unwrap_or_default();
        Ok(Undone { changed, target, operation })
    }
}

/// The change whose result the vault has after a revision: itself, unless it is an undo or a redo.
fn effective(read: &Read<'_>, line: &[Segment], revision: u64) -> Result<Option<RevisionRow>, VfsError> {
    let mut at = revision;
    loop {
        let Some(row) = read.revision(line, at)? else { return Ok(None) };
        match (row.operation.as_str(), row.target) {
            // Both return to the state before what they name.
            (UNDO | REDO, Some(target)) if target > 0 => at = target - 1,
            _ => return Ok(Some(row)),
        }
    }
}
