//! Saves checkpoints.

use agentiso_store::TreeId;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::kind::{Checkpoint, CheckpointKind, SaveCheckpoint};
use crate::db::Tx;
use crate::model::Totals;
use crate::name::check_checkpoint_name;
use crate::records::{CheckpointRow, VaultRow};
use crate::{Vaults, VfsError};

const MAX_DESCRIPTION: usize = 4096;
const MAX_TAGS: usize = 64;

/// A state that becomes a checkpoint within a transaction.
pub(crate) struct NewCheckpoint<'n> {
    pub(crate) row: &'n VaultRow,
    pub(crate) request: &'n SaveCheckpoint,
    pub(crate) tree: TreeId,
    pub(crate) annotations: Option<i64>,
    pub(crate) revision: u64,
    pub(crate) totals: Totals,
    pub(crate) actor: &'n str,
    pub(crate) now: Timestamp,
}

impl Vaults {
    /// Saves the present state of a vault.
    pub fn save_checkpoint(&self, vault: &str, request: &SaveCheckpoint) -> Result<Checkpoint, VfsError> {
        check(request)?;
        let now = Self::now();
        self.records.write(|tx| {
            let row = tx.vault(vault)?;
            let new = NewCheckpoint {
                request,
                tree: row.tree,
                annotations: row.annotations,
                revision: row.revision,
                totals: row.totals,
                actor: &self.actor,
                now,
                row: &row,
            };
            let saved = tx.save_checkpoint(&new)?;
            self.audit_vault(tx, &row, "snapshot_save", Some(&detail(&saved.name)))?;
            Ok(saved)
        })
    }
}

/// Details of an operation on a checkpoint, as JSON.
pub(crate) fn detail(name: &str) -> String {
    let mut text = String::from("{\"checkpoint\":\"");
    for letter in name.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            // Names have no control characters.
            letter => text.push(letter),
        }
    }
    text.push_str("\"}");
    text
}

pub(crate) fn check(request: &SaveCheckpoint) -> Result<(), VfsError> {
    if let Some(name) = &request.name {
        check_checkpoint_name(name)?;
    }
    if request.description.as_ref().is_some_and(|text| text.len() > MAX_DESCRIPTION) {
        let reason = format!("it is longer than {MAX_DESCRIPTION} bytes");
        return Err(VfsError::invalid("the description of the checkpoint", reason));
    }
    if request.tags.len() > MAX_TAGS {
        return Err(VfsError::invalid(
            "the tags of the checkpoint",
            format_args!("there are more than {MAX_TAGS}"),
        ));
    }
    for tag in &request.tags {
        if tag.is_empty() || tag.len() > 255 || tag.chars().any(char::is_control) {
            let reason = "a tag must have 1 to 255 bytes without control characters";
            return Err(VfsError::invalid("the tags of the checkpoint", reason));
        }
    }
    Ok(())
}

impl Tx<'_> {
    /// Adds a checkpoint, and removes the oldest of its kind if they are kept to a number.
    pub(crate) fn save_checkpoint(&self, new: &NewCheckpoint<'_>) -> Result<Checkpoint, VfsError> {
        let vault = new.row.key;
        let name = match &new.request.name {
            Some(name) if self.has_checkpoint(vault, name)? => {
                return Err(VfsError::CheckpointExists { vault: new.row.shown(), name: name.clone() });
            }
            Some(name) => name.clone(),
            None => self.free_checkpoint_name(vault, new.request.kind, new.now)?,
        };
        let row = CheckpointRow {
            vault,
            name,
            kind: new.request.kind,
            tree: new.tree,
            annotations: new.annotations,
            revision: new.revision,
            totals: new.totals,
            description: new.request.description.clone(),
            tags: new.request.tags.clone(),
            actor: new.actor.to_owned(),
            created_at: new.now,
        };
        self.insert_checkpoint(&row)?;
        let retention = self.retention(vault)?;
        let keep = match row.kind {
            CheckpointKind::Auto => retention.auto_checkpoints,
            CheckpointKind::Undo => retention.undo_points,
            CheckpointKind::User | CheckpointKind::Conflict => None,
        };
        if let Some(keep) = keep {
            // Never the one that was just made.
            self.thin_checkpoints(vault, row.kind, keep.max(1))?;
        }
        Ok(Checkpoint::from_row(row, new.row.id, false))
    }

    /// A name that tells the kind and the second, with a number if there are several.
    fn free_checkpoint_name(
        &self,
        vault: i64,
        kind: CheckpointKind,
        now: Timestamp,
    ) -> Result<String, VfsError> {
        let stem = format!("{}-{}", kind.prefix(), now.to_zoned(TimeZone::UTC).strftime("%Y%m%d-%H%M%S"));
        let mut name = stem.clone();
        let mut number = 2_u64;
        while self.has_checkpoint(vault, &name)? {
            name = format!("{stem}-{number}");
            number += 1;
        }
        Ok(name)
    }
}
