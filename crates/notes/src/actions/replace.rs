//! `replace`

use agentiso_core::Secret;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::NotesError;
use crate::etag::{Etag, IfMatch};
use crate::history::VersionAction;
use crate::index::compile;
use crate::limits::MAX_NOTE;
use crate::path::NotePath;
use crate::view::{View, text_of};

/// Replaces all occurrences of a text in a note.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceText {
    /// The note.
    pub path: NotePath,
    /// The text, or the pattern, to replace.
    pub old_string: Secret<String>,
    /// What to put in its place; for patterns with groups as `$1` or `${name}`.
    pub new_string: Secret<String>,
    /// Whether `old_string` is a regular expression of at most 1024 characters.
    #[serde(default)]
    pub regex: bool,
    /// Change only if the note is still this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<IfMatch>,
}

/// Text was replaced.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Replaced {
    /// The note.
    pub path: NotePath,
    /// The new version.
    pub etag: Etag,
    /// The number of places.
    pub replacements: usize,
    /// False if the replacement is the same text.
    pub changed: bool,
}

impl View {
    /// Replaces all occurrences of a text in a note.
    pub fn replace(&self, request: &ReplaceText) -> Result<Replaced, NotesError> {
        let path = &request.path;
        let (old, new) = (request.old_string.expose(), request.new_string.expose());
        if old.is_empty() {
            return Err(NotesError::invalid("old_string", "it is empty"));
        }
        let regex = if request.regex { Some(compile(old)?) } else { None };
        self.require_write(path)?;
        let mut replacements = 0;
        let mut edit = |before: Option<&[u8]>| {
            let text = text_of(path, before.ok_or_else(|| self.not_found(path))?)?;
            let (edited, count) = match &regex {
                Some(regex) => by_pattern(path, text, regex, new)?,
                None => by_text(path, text, old, new)?,
            };
            if count == 0 {
                return Err(NotesError::TextNotFound { path: path.to_string() });
            }
            replacements = count;
            Ok(Some(edited.into_bytes()))
        };
        let changed = self.change(path, request.if_match, VersionAction::Replace, None, &mut edit)?;
        let etag = Etag::of(changed.content.as_deref().unwrap_or_default());
        Ok(Replaced { path: path.clone(), etag, replacements, changed: changed.is_changed })
    }
}

fn by_text(path: &NotePath, text: &str, old: &str, new: &str) -> Result<(String, usize), NotesError> {
    let count = text.matches(old).count();
    let size = text.len() - count * old.len() + count * new.len();
    bounded(path, size)?;
    Ok((text.replace(old, new), count))
}

fn by_pattern(path: &NotePath, text: &str, regex: &Regex, new: &str) -> Result<(String, usize), NotesError> {
    let mut edited = String::with_capacity(text.len());
    let (mut count, mut done) = (0, 0);
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        edited.push_str(text.get(done..whole.start()).unwrap_or_default());
        captures.expand(new, &mut edited);
        bounded(path, edited.len())?;
        done = whole.end();
        count += 1;
    }
    edited.push_str(text.get(done..).unwrap_or_default());
    Ok((edited, count))
}

fn bounded(path: &NotePath, size: usize) -> Result<(), NotesError> {
    if size > MAX_NOTE {
        return Err(NotesError::TooLarge { path: path.to_string(), size: size as u64, max: MAX_NOTE });
    }
    Ok(())
}
