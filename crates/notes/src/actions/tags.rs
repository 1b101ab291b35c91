//! `tags`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::front_matter::explain;
use crate::analysis::analyse;
use crate::error::NotesError;
use crate::etag::{Etag, IfMatch};
use crate::front_matter::{with_tag, without_tag};
use crate::history::VersionAction;
use crate::markdown::is_tag;
use crate::path::NotePath;
use crate::view::{View, text_of};

/// Reads or edits the tags of a note.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EditTags {
    /// The note.
    pub path: NotePath,
    /// What to do.
    pub tags_action: TagsAction,
    /// The tag to add or remove, with or without `#`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Change only if the note is still this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<IfMatch>,
}

/// What is done with tags.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TagsAction {
    /// Reads those in the front matter and in the text.
    List,
    /// Adds one to the front matter.
    Add,
    /// Removes one from the front matter. Tags in the text stay.
    Remove,
}

/// The tags of a note.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TagsResult {
    /// The note.
    pub path: NotePath,
    /// The version of the note with these tags.
    pub etag: Etag,
    /// All tags, without `#`: first those of the front matter, then those of the text.
    pub tags: Vec<String>,
    /// Whether the note was changed.
    pub changed: bool,
}

/// A tag and how many notes have it.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TagCount {
    /// The tag, without `#`.
    pub tag: String,
    /// The number of notes.
    pub notes: u64,
}

impl View {
    /// Reads or edits the tags of a note.
    pub fn tags(&self, request: &EditTags) -> Result<TagsResult, NotesError> {
        let path = &request.path;
        let tag = || {
            let tag = request.tag.as_deref().unwrap_or_default().trim_start_matches('#');
            if is_tag(tag) {
                return Ok(tag);
            }
            let reason = "a tag has letters, digits, \"_\", \"-\" and \"/\", and not only digits";
            Err(NotesError::invalid("tag", reason))
        };
        let (tag, apply): (_, fn(&str, &str) -> _) = match request.tags_action {
            TagsAction::List => {
                self.require_read(path)?;
                return result(path, &self.existing(path)?.bytes, false);
            }
            TagsAction::Add => (tag()?, with_tag),
            TagsAction::Remove => (tag()?, without_tag),
        };
        self.require_write(path)?;
        let mut edit = |before: Option<&[u8]>| {
            let text = text_of(path, before.ok_or_else(|| self.not_found(path))?)?;
            Ok(Some(apply(text, tag).map_err(|error| explain(path, error))?.into_bytes()))
        };
        let changed = self.change(path, request.if_match, VersionAction::Tags, None, &mut edit)?;
        result(path, changed.content.as_deref().unwrap_or_default(), changed.is_changed)
    }

    /// The tags of all visible notes, the commonest first.
    pub fn all_tags(&self) -> Result<Vec<TagCount>, NotesError> {
        let tags = self.inner.index.all_tags(&self.scope)?;
        Ok(tags.into_iter().map(|(tag, notes)| TagCount { tag, notes }).collect())
    }
}

fn result(path: &NotePath, bytes: &[u8], changed: bool) -> Result<TagsResult, NotesError> {
    let tags = analyse(text_of(path, bytes)?).tags;
    Ok(TagsResult { path: path.clone(), etag: Etag::of(bytes), tags, changed })
}
