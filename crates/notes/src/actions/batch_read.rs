//! `batch_read`

use agentiso_core::{Code, Explain, chain};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::read::{NoteFormat, ReadNote};
use crate::error::NotesError;
use crate::etag::Etag;
use crate::limits::{MAX_BATCH, MAX_BATCH_BYTES};
use crate::path::NotePath;
use crate::view::View;

/// Reads up to ten notes.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BatchRead {
    /// The notes.
    #[schemars(length(min = 1, max = MAX_BATCH))]
    pub paths: Vec<String>,
    /// Whether to return their text; true if absent.
    #[serde(default = "yes")]
    pub include_content: bool,
    /// Whether to return the values of their front matter; true if absent.
    #[serde(default = "yes")]
    pub include_frontmatter: bool,
}

const fn yes() -> bool {
    true
}

/// The notes that were read.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct BatchResult {
    /// One entry per path, in their order.
    pub notes: Vec<BatchEntry>,
}

/// A note, or why it could not be read.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct BatchEntry {
    /// The path as requested.
    pub path: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<Etag>,
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The values of its front matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontmatter: Option<Map<String, Value>>,
    /// Why it, or its front matter, could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<NoteFailure>,
}

/// Why one note could not be read.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NoteFailure {
    /// What went wrong.
    pub code: Code,
    /// The same in words.
    pub message: String,
}

impl View {
    /// Reads several notes. One that cannot be read does not keep the others from being read.
    pub fn batch_read(&self, request: &BatchRead) -> Result<BatchResult, NotesError> {
        if request.paths.is_empty() || request.paths.len() > MAX_BATCH {
            return Err(NotesError::invalid("paths", format_args!("give 1 to {MAX_BATCH} of them")));
        }
        let mut left = MAX_BATCH_BYTES;
        let notes = request.paths.iter().map(|path| self.batch_entry(request, path, &mut left)).collect();
        Ok(BatchResult { notes })
    }

    fn batch_entry(&self, request: &BatchRead, path: &str, left: &mut usize) -> BatchEntry {
        let format = if request.include_frontmatter { NoteFormat::Json } else { NoteFormat::Markdown };
        let mut entry =
            BatchEntry { path: path.to_owned(), etag: None, content: None, frontmatter: None, error: None };
        let note = NotePath::parse(path).and_then(|path| self.read(&ReadNote { path, format }));
        match note {
            Ok(note) => {
                entry.etag = Some(note.etag);
                entry.frontmatter = note.frontmatter;
                entry.error =
                    note.problem.map(|message| NoteFailure { code: Code::InvalidArgument, message });
                if request.include_content {
                    match left.checked_sub(note.content.len()) {
                        Some(rest) => {
                            *left = rest;
                            entry.content = Some(note.content);
                        }
                        None => {
                            let message = "too much text for one answer; read this note by itself".to_owned();
                            entry.error = Some(NoteFailure { code: Code::FileTooLarge, message });
                        }
                    }
                }
            }
            Err(error) => entry.error = Some(NoteFailure { code: error.code(), message: chain(&error) }),
        }
        entry
    }
}
