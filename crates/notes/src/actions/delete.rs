//! `delete`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::NotesError;
use crate::etag::IfMatch;
use crate::history::VersionAction;
use crate::path::NotePath;
use crate::view::View;

/// Deletes a note. `undo` restores it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteNote {
    /// The note.
    pub path: NotePath,
    /// Must be true.
    pub confirm: bool,
    /// Delete only if the note is still this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<IfMatch>,
}

/// A note was deleted.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Deleted {
    /// The note.
    pub path: NotePath,
}

impl View {
    /// Deletes a note.
    pub fn delete(&self, request: &DeleteNote) -> Result<Deleted, NotesError> {
        let path = &request.path;
        if !request.confirm {
            return Err(NotesError::invalid("confirm", "it must be true to delete a note"));
        }
        self.require_write(path)?;
        let mut edit = |before: Option<&[u8]>| match before {
            Some(_) => Ok(None),
            None => Err(self.not_found(path)),
        };
        self.change(path, request.if_match, VersionAction::Delete, None, &mut edit)?;
        Ok(Deleted { path: path.clone() })
    }
}
