//! `stats`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::read::time;
use crate::error::NotesError;
use crate::limits::MAX_RESULTS;
use crate::path::FolderPath;
use crate::view::View;

/// Notes listed as changed recently if the request does not say how many.
const RECENT: usize = 10;

/// Counts the notes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadStats {
    /// How many of the notes that changed last to list; 10 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RESULTS))]
    pub recent_count: Option<usize>,
}

/// Numbers about the notes.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Stats {
    /// Notes.
    pub total_notes: u64,
    /// Folders.
    pub total_folders: u64,
    /// Bytes of all notes.
    pub total_size_bytes: u64,
    /// The notes that changed last, latest first.
    pub recent_files: Vec<RecentFile>,
    /// Up to 100 notes that cannot be searched, or whose front matter is invalid.
    pub problems: Vec<UnreadableNote>,
}

/// A note that changed recently.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RecentFile {
    /// The note.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// Time of the last change, RFC 3339.
    pub modified: String,
}

/// A note with a problem.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct UnreadableNote {
    /// The note.
    pub path: String,
    /// The problem.
    pub problem: String,
}

impl View {
    /// Counts the notes.
    pub fn stats(&self, request: &ReadStats) -> Result<Stats, NotesError> {
        let recent = request.recent_count.unwrap_or(RECENT).min(MAX_RESULTS);
        let totals = self.inner.index.totals(&self.scope, recent)?;
        let mut total_folders = 0;
        self.inner.directory.walk(&self.inner.config, &FolderPath::root(), |listed| {
            let Ok(folder) = FolderPath::parse(&listed.path) else { return Ok(false) };
            if listed.file.is_some() || !self.scope.leads_to(&folder) {
                return Ok(false);
            }
            total_folders += u64::from(self.scope.can_read(&listed.path));
            Ok(true)
        })?;
        let recent_files = totals.recent.into_iter().map(|(path, size_bytes, modified_ns)| RecentFile {
            path,
            size_bytes,
            modified: time(modified_ns),
        });
        let problems = totals.problems.into_iter().map(|(path, problem)| UnreadableNote { path, problem });
        Ok(Stats {
            total_notes: totals.notes,
            total_folders,
            total_size_bytes: totals.bytes,
            recent_files: recent_files.collect(),
            problems: problems.collect(),
        })
    }
}
