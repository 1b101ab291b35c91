//! `frontmatter`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::NotesError;
use crate::etag::{Etag, IfMatch};
use crate::front_matter::{FrontMatterEdit, YamlError, block, edit_front_matter, parse};
use crate::history::VersionAction;
use crate::limits::MAX_YAML_DEPTH;
use crate::path::NotePath;
use crate::view::{View, text_of};

/// The longest key, in characters.
const MAX_KEY: usize = 128;

/// Reads or edits the front matter of a note. Edits keep every byte but those of the key.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EditFrontMatter {
    /// The note.
    pub path: NotePath,
    /// What to do.
    pub frontmatter_action: FrontMatterAction,
    /// The key to set or delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its new value, any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub value: Option<Value>,
    /// Change only if the note is still this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<IfMatch>,
}

/// A value that is `null` is not absent.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What is done with front matter.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FrontMatterAction {
    /// Reads it.
    Get,
    /// Sets a key.
    Set,
    /// Removes a key, and the block if nothing is left in it.
    Delete,
}

/// The front matter of a note.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FrontMatterResult {
    /// The note.
    pub path: NotePath,
    /// The version of the note with this front matter.
    pub etag: Etag,
    /// All values; empty if there is no front matter.
    pub frontmatter: Map<String, Value>,
    /// Whether the note was changed.
    pub changed: bool,
}

impl View {
    /// Reads or edits the front matter of a note.
    pub fn front_matter(&self, request: &EditFrontMatter) -> Result<FrontMatterResult, NotesError> {
        let path = &request.path;
        let key = || match request.key.as_deref() {
            None | Some("") => Err(NotesError::invalid("key", "it is needed to set or delete one")),
            Some(key) if key.chars().count() > MAX_KEY || key.chars().any(char::is_control) => {
                Err(NotesError::invalid("key", "it has more than 128 characters, or control characters"))
            }
            Some(key) => Ok(key),
        };
        let edit = match request.frontmatter_action {
            FrontMatterAction::Get => {
                self.require_read(path)?;
                let found = self.existing(path)?;
                return result(path, &found.bytes, false);
            }
            FrontMatterAction::Set => {
                let Some(value) = &request.value else {
                    return Err(NotesError::invalid("value", "it is needed to set a key"));
                };
                if depth(value) >= MAX_YAML_DEPTH {
                    return Err(NotesError::invalid("value", "it is nested too deeply"));
                }
                FrontMatterEdit::Set(key()?, value)
            }
            FrontMatterAction::Delete => FrontMatterEdit::Delete(key()?),
        };
        self.require_write(path)?;
        let mut apply = |before: Option<&[u8]>| {
            let text = text_of(path, before.ok_or_else(|| self.not_found(path))?)?;
            let edited = edit_front_matter(text, &edit).map_err(|error| explain(path, error))?;
            Ok(Some(edited.into_bytes()))
        };
        let changed = self.change(path, request.if_match, VersionAction::FrontMatter, None, &mut apply)?;
        result(path, changed.content.as_deref().unwrap_or_default(), changed.is_changed)
    }
}

fn result(path: &NotePath, bytes: &[u8], changed: bool) -> Result<FrontMatterResult, NotesError> {
    let text = text_of(path, bytes)?;
    let frontmatter = match block(text) {
        Some(block) => {
            parse(text.get(block.yaml).unwrap_or_default()).map_err(|error| explain(path, error))?
        }
        None => Map::new(),
    };
    Ok(FrontMatterResult { path: path.clone(), etag: Etag::of(bytes), frontmatter, changed })
}

/// The error with the line of the note: the YAML begins in its second line.
pub(super) fn explain(path: &NotePath, error: YamlError) -> NotesError {
    NotesError::FrontMatter { path: path.to_string(), line: error.line + 1, reason: error.reason }
}

fn depth(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(depth).max().unwrap_or_default(),
        Value::Object(map) => map.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
