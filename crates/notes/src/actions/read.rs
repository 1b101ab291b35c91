//! `read`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::disk::Found;
use crate::error::NotesError;
use crate::etag::Etag;
use crate::front_matter::{block, parse};
use crate::path::NotePath;
use crate::view::{View, text_of};

/// Reads a note.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadNote {
    /// The note.
    pub path: NotePath,
    /// `markdown` (default), or `json` to get the front matter as values, too.
    #[serde(default)]
    pub format: NoteFormat,
}

/// The form of a note.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteFormat {
    /// The text alone.
    #[default]
    Markdown,
    /// The text and the values of the front matter.
    Json,
}

/// A note.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Note {
    /// The note.
    pub path: NotePath,
    /// Pass it as `if_match` to change only this version.
    pub etag: Etag,
    /// The whole text, with its front matter.
    pub content: String,
    /// The values of the front matter, if `json` was requested and there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontmatter: Option<Map<String, Value>>,
    /// Why the front matter cannot be read, if `json` was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change, RFC 3339.
    pub modified: String,
}

impl View {
    /// Reads a note.
    pub fn read(&self, request: &ReadNote) -> Result<Note, NotesError> {
        self.require_read(&request.path)?;
        let Found { stat, bytes } = self.existing(&request.path)?;
        let etag = Etag::of(&bytes);
        text_of(&request.path, &bytes)?;
        let content = String::from_utf8_lossy(&bytes).into_owned();
        let (frontmatter, problem) = match request.format {
            NoteFormat::Markdown => (None, None),
            NoteFormat::Json => front_matter_of(&content),
        };
        let modified = time(stat.modified_ns);
        Ok(Note {
            path: request.path.clone(),
            etag,
            content,
            frontmatter,
            problem,
            size: stat.size,
            modified,
        })
    }
}

/// The values of the front matter, or why there are none.
pub(super) fn front_matter_of(content: &str) -> (Option<Map<String, Value>>, Option<String>) {
    let Some(block) = block(content) else { return (None, None) };
    match parse(content.get(block.yaml).unwrap_or_default()) {
        Ok(values) => (Some(values), None),
        Err(error) => (None, Some(format!("line {}: {}", error.line + 1, error.reason))),
    }
}

/// A time stamp of a file as text.
pub(super) fn time(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
