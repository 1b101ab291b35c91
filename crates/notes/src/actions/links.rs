//! `links`: what a note links to, and what links to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::NotesError;
use crate::index::LinkRow;
use crate::path::NotePath;
use crate::view::View;

/// Lists the links from and to a note.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadLinks {
    /// The note.
    pub path: NotePath,
}

/// The links of a note. Those from and to notes that the caller may not see are left out.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct NoteLinks {
    /// The note.
    pub path: NotePath,
    /// Links in the note.
    pub links: Vec<LinkInfo>,
    /// Links in other notes, and in itself, to the note.
    pub backlinks: Vec<LinkInfo>,
}

/// A link.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct LinkInfo {
    /// The note with the link.
    pub source: String,
    /// The line of the link, from 1.
    pub line: usize,
    /// What the link says, without heading and alias.
    pub text: String,
    /// The file it leads to; absent if there is none.
    pub target: Option<String>,
    /// Whether the target is shown in place.
    pub embed: bool,
}

impl LinkInfo {
    pub(super) fn new(link: LinkRow, target: Option<String>) -> Self {
        Self { source: link.source, line: link.line, text: link.target, target, embed: link.is_embed }
    }
}

impl View {
    /// Lists the links from and to a note.
    pub fn links(&self, request: &ReadLinks) -> Result<NoteLinks, NotesError> {
        let path = &request.path;
        self.require_read(path)?;
        self.existing(path)?;
        let (index, config) = (&self.inner.index, &self.inner.config);
        let outgoing = index.links_of(config, path.as_str())?;
        let incoming = index.backlinks(config, path.as_str())?;
        let visible = |target: Option<String>| target.filter(|target| self.scope.can_read(target));
        Ok(NoteLinks {
            path: path.clone(),
            links: outgoing.into_iter().map(|(link, target)| LinkInfo::new(link, visible(target))).collect(),
            backlinks: incoming
                .into_iter()
                .filter(|link| self.scope.can_read(&link.source))
                .map(|link| LinkInfo::new(link, Some(path.to_string())))
                .collect(),
        })
    }
}
