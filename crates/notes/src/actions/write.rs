//! `write`

use agentiso_core::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::NotesError;
use crate::etag::{Etag, IfMatch};
use crate::front_matter::block;
use crate::history::VersionAction;
use crate::limits::MAX_NOTE;
use crate::markdown::{SectionEdit, SectionError, edit_section, join, outline};
use crate::path::NotePath;
use crate::view::{View, text_of};

/// How many headings an error names.
const HEADINGS: usize = 20;

/// Writes a note, or adds to it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WriteNote {
    /// The note; it and its folders are created if they do not exist.
    pub path: NotePath,
    /// The text, at most 10 MiB.
    pub content: Secret<String>,
    /// What to do with it.
    #[serde(default)]
    pub mode: WriteMode,
    /// The heading of the section, for the modes that need one: its text, or a path of headings such as `Plan#Risks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    /// Write only if the note is still this version, or `absent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<IfMatch>,
}

/// What a write does with its content.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Replaces the note.
    #[default]
    Overwrite,
    /// Adds to the end, on a new line.
    Append,
    /// Adds to the beginning, behind the front matter.
    Prepend,
    /// Adds to the end of the section, which must exist.
    AppendSection,
    /// Replaces what is below the heading, to the next heading of its level.
    ReplaceSection,
    /// Inserts before the heading.
    BeforeHeading,
    /// Inserts below the heading.
    AfterHeading,
}

impl WriteMode {
    fn section(self) -> Option<SectionEdit> {
        match self {
            Self::Overwrite | Self::Append | Self::Prepend => None,
            Self::AppendSection => Some(SectionEdit::Append),
            Self::ReplaceSection => Some(SectionEdit::Replace),
            Self::BeforeHeading => Some(SectionEdit::Before),
            Self::AfterHeading => Some(SectionEdit::After),
        }
    }
}

/// A note was written.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Written {
    /// The note.
    pub path: NotePath,
    /// The new version.
    pub etag: Etag,
    /// Size in bytes.
    pub size: u64,
    /// Whether the note is new.
    pub created: bool,
    /// False if the note already had this content.
    pub changed: bool,
}

impl View {
    /// Writes a note.
    pub fn write(&self, request: &WriteNote) -> Result<Written, NotesError> {
        let WriteNote { path, mode, heading, if_match, .. } = request;
        let content = request.content.expose();
        if content.len() > MAX_NOTE {
            let size = content.len() as u64;
            return Err(NotesError::TooLarge { path: path.to_string(), size, max: MAX_NOTE });
        }
        let heading = match (mode.section(), heading) {
            (Some(edit), Some(heading)) => Some((edit, heading.as_str())),
            (Some(_), None) => return Err(NotesError::invalid("heading", "this mode needs one")),
            (None, Some(_)) => {
                return Err(NotesError::invalid("heading", "only modes for sections take one"));
            }
            (None, None) => None,
        };
        let mut edit = |before: Option<&[u8]>| {
            if *mode == WriteMode::Overwrite {
                return Ok(Some(content.clone().into_bytes()));
            }
            let old = before.map(|before| text_of(path, before)).transpose()?;
            let new = match (heading, old) {
                (Some(_), None) => return Err(self.not_found(path)),
                (Some((edit, heading)), Some(old)) => section(path, old, heading, edit, content)?,
                (None, old) => {
                    let old = old.unwrap_or_default();
                    let body = if *mode == WriteMode::Prepend {
                        block(old).map_or(0, |block| block.span.end)
                    } else {
                        old.len()
                    };
                    let (start, rest) = old.split_at(body);
                    join(start, content, rest)
                }
            };
            Ok(Some(new.into_bytes()))
        };
        let changed = self.change(path, *if_match, VersionAction::Write, None, &mut edit)?;
        let content = changed.content.unwrap_or_default();
        Ok(Written {
            path: path.clone(),
            etag: Etag::of(&content),
            size: content.len() as u64,
            created: changed.is_created,
            changed: changed.is_changed,
        })
    }
}

fn section(
    path: &NotePath,
    text: &str,
    heading: &str,
    edit: SectionEdit,
    content: &str,
) -> Result<String, NotesError> {
    let outline = outline(text, block(text).map_or(0, |block| block.span.end));
    edit_section(text, &outline, heading, edit, content).map_err(|error| match error {
        SectionError::NotFound => NotesError::HeadingNotFound {
            path: path.to_string(),
            heading: heading.to_owned(),
            headings: outline.headings.iter().take(HEADINGS).map(|heading| heading.text.clone()).collect(),
        },
        SectionError::Ambiguous(lines) => {
            NotesError::HeadingAmbiguous { path: path.to_string(), heading: heading.to_owned(), lines }
        }
    })
}
