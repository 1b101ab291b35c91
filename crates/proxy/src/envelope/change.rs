//! Changed files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One changed file, directory or other entry.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ChangeReport {
    /// Its path in the vault. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub path: String,
    /// The exact bytes of the path in hexadecimal digits, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// What happened to it.
    pub kind: ChangeKind,
    /// What it is now, or was if it is deleted: `file`, `directory`, `symlink`, `fifo` and so on.
    #[serde(rename = "type")]
    pub entry: String,
    /// Its path before, if it was renamed.
    pub old_path: Option<String>,
    /// Its size before.
    pub size_before: Option<u64>,
    /// Its size after.
    pub size_after: Option<u64>,
    /// Identifies its content before.
    pub hash_before: Option<String>,
    /// Identifies its content after.
    pub hash_after: Option<String>,
    /// Its permissions before, in octal digits.
    pub mode_before: Option<String>,
    /// Its permissions after, in octal digits.
    pub mode_after: Option<String>,
}

/// What happened to an entry.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// Its content, type, permissions or attributes changed.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another path.
    Renamed,
}

/// A change that could not be merged with what was changed in the vault while the command ran.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FileConflict {
    /// Its path in the vault.
    pub path: String,
    /// What is in conflict, in words.
    pub reason: String,
}
