//! `list`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::read::time;
use crate::error::NotesError;
use crate::limits::MAX_LISTED;
use crate::path::FolderPath;
use crate::view::View;

/// Lists a folder.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ListNotes {
    /// The folder; the directory of notes itself if absent.
    #[serde(default, alias = "path_prefix")]
    pub path: FolderPath,
    /// Whether to list what is in its folders, too.
    #[serde(default)]
    pub recursive: bool,
}

/// The entries of a folder.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Listing {
    /// The folder.
    pub path: FolderPath,
    /// Whether the entries of its folders are listed, too.
    pub recursive: bool,
    /// The number of entries listed.
    pub count: usize,
    /// Whether there are more than 10000 entries, of which these are some.
    pub truncated: bool,
    /// The entries, sorted by path.
    pub entries: Vec<ListEntry>,
}

/// A file or folder.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ListEntry {
    /// Relative to the directory of notes.
    pub path: String,
    /// Whether it is a folder.
    pub is_dir: bool,
    /// Size in bytes; 0 for folders.
    pub size: u64,
    /// Time of the last change, RFC 3339; absent for folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    /// Whether it is a note, by its extension; other files are not searched.
    pub is_note: bool,
}

impl View {
    /// Lists a folder.
    pub fn list(&self, request: &ListNotes) -> Result<Listing, NotesError> {
        let folder = &request.path;
        let not_found = || NotesError::FolderNotFound { path: folder.to_string() };
        if !self.scope.leads_to(folder) {
            self.scope.require_read(folder.as_str())?;
        }
        if self.inner.config.is_excluded(&format!("{folder}/x")) {
            return Err(not_found());
        }
        let mut entries = Vec::new();
        let mut truncated = false;
        let walked = self.inner.directory.walk(&self.inner.config, folder, |listed| {
            let is_visible = match (&listed.file, FolderPath::parse(&listed.path)) {
                (None, Ok(below)) => self.scope.leads_to(&below),
                _ => self.scope.can_read(&listed.path),
            };
            if !is_visible {
                return Ok(false);
            }
            if entries.len() == MAX_LISTED {
                truncated = true;
                return Ok(false);
            }
            let name = listed.path.rsplit_once('/').map_or(&*listed.path, |(_, name)| name);
            let is_note = listed.file.is_some() && self.inner.config.strip_extension(name).is_some();
            entries.push(ListEntry {
                is_dir: listed.file.is_none(),
                size: listed.file.map_or(0, |stat| stat.size),
                modified: listed.file.map(|stat| time(stat.modified_ns)),
                is_note,
                path: listed.path,
            });
            Ok(request.recursive)
        })?;
        walked.ok_or_else(not_found)?;
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let (path, recursive) = (folder.clone(), request.recursive);
        Ok(Listing { path, recursive, count: entries.len(), truncated, entries })
    }
}
