//! `history`, `version` and `undo`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::read::{Note, time};
use super::relocate::MoveNote;
use crate::error::NotesError;
use crate::etag::{Etag, IfMatch};
use crate::history::{Version, VersionAction};
use crate::limits::{DEFAULT_RESULTS, MAX_HISTORY};
use crate::path::NotePath;
use crate::view::{View, text_of};

/// What an undo of the first version restores: the note did not exist.
const BEFORE_ALL: u64 = 0;

/// Lists the versions of a note, latest first, through its moves.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadHistory {
    /// The note, which may have been deleted.
    pub path: NotePath,
    /// At most this many; 20 if absent, at most 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_HISTORY))]
    pub limit: Option<usize>,
    /// Only versions before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

/// The versions of a note.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct NoteHistory {
    /// The note.
    pub path: NotePath,
    /// Its versions, latest first.
    pub versions: Vec<HistoryEntry>,
    /// Whether there may be earlier ones.
    pub truncated: bool,
}

/// A version of a note.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct HistoryEntry {
    /// Its number.
    pub version: u64,
    /// The path at that time.
    pub path: String,
    /// When it was made, RFC 3339.
    pub time: String,
    /// Who made it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// What led to it.
    pub action: VersionAction,
    /// Its etag; absent if the note did not exist from then on.
    pub etag: Option<Etag>,
    /// Its size in bytes.
    pub size: u64,
}

/// Reads a version of a note.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadVersion {
    /// The note.
    pub path: NotePath,
    /// The number of the version.
    pub version: u64,
}

/// Restores an earlier version of a note: the one before the last change or, repeated, the ones before that. Restores
/// deleted notes, too, and moves a note back that was moved last.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UndoNote {
    /// The note.
    pub path: NotePath,
    /// Restores this version instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Restore only if the note is still this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<IfMatch>,
}

/// An earlier version was restored.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Undone {
    /// The note; another path than requested if a move was undone.
    pub path: NotePath,
    /// The etag of the note; absent if it did not exist before and was removed now.
    pub etag: Option<Etag>,
    /// The version that was restored, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<u64>,
}

impl View {
    /// Lists the versions of a note.
    pub fn history(&self, request: &ReadHistory) -> Result<NoteHistory, NotesError> {
        let path = &request.path;
        self.require_read(path)?;
        let limit = request.limit.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_HISTORY);
        let found = self.inner.history.versions(path.as_str(), request.before, limit)?;
        if found.is_empty() && request.before.is_none() {
            // A note that was only ever edited by hand has no versions, and that is no error.
            self.existing(path)?;
        }
        let truncated = found.len() >= limit;
        // A note may have been moved here from where the caller sees nothing.
        let visible = found.into_iter().filter(|version| self.scope.can_read(&version.path));
        let versions = visible.map(|version| HistoryEntry {
            version: version.id,
            time: time(version.at_ms.saturating_mul(1_000_000)),
            action: version.action,
            etag: version.etag(),
            size: version.size(),
            path: version.path,
            author: version.author,
        });
        Ok(NoteHistory { path: path.clone(), versions: versions.collect(), truncated })
    }

    /// Reads a version of a note.
    pub fn version(&self, request: &ReadVersion) -> Result<Note, NotesError> {
        let path = &request.path;
        self.require_read(path)?;
        let version = self.own_version(path, request.version)?;
        let missing = || NotesError::VersionNotFound { path: path.to_string(), version: request.version };
        let bytes = self.inner.history.content(&version.stored.ok_or_else(missing)?)?;
        let content = text_of(path, &bytes)?.to_owned();
        Ok(Note {
            path: path.clone(),
            etag: Etag::of(&bytes),
            content,
            frontmatter: None,
            problem: None,
            size: bytes.len() as u64,
            modified: time(version.at_ms.saturating_mul(1_000_000)),
        })
    }

    /// A version that belongs to the note, and that the caller may see.
    fn own_version(&self, path: &NotePath, id: u64) -> Result<Version, NotesError> {
        let found = self.inner.history.versions(path.as_str(), None, MAX_HISTORY)?;
        found
            .into_iter()
            .find(|version| version.id == id && self.scope.can_read(&version.path))
            .ok_or_else(|| NotesError::VersionNotFound { path: path.to_string(), version: id })
    }

    /// Restores an earlier version of a note.
    pub fn undo(&self, request: &UndoNote) -> Result<Undone, NotesError> {
        let path = &request.path;
        self.require_write(path)?;
        {
            // A change by another program is a version, too.
            let lock = self.inner.lock()?;
            self.inner.refresh(&lock, path.as_str())?;
        }
        let target = match request.version {
            Some(id) => Some(self.own_version(path, id)?),
            None => match self.previous(path)? {
                Previous::Version(version) => Some(version),
                Previous::Nothing => None,
                Previous::Moved(from) => {
                    let back = MoveNote {
                        path: path.clone(),
                        new_path: NotePath::parse(&from)?,
                        overwrite: false,
                        if_match: request.if_match,
                    };
                    let moved = self.relocate(&back)?;
                    return Ok(Undone { path: moved.to, etag: Some(moved.etag), restored: None });
                }
            },
        };
        let content = match target.as_ref().and_then(|target| target.stored) {
            Some(stored) => Some(self.inner.history.content(&stored)?),
            None => None,
        };
        let restores = target.as_ref().map_or(BEFORE_ALL, |target| target.id);
        let mut edit = |_: Option<&[u8]>| Ok(content.clone());
        let changed = self.change(path, request.if_match, VersionAction::Undo, Some(restores), &mut edit)?;
        Ok(Undone { path: path.clone(), etag: changed.etag(), restored: target.map(|target| target.id) })
    }

    /// What was before the last change that was not undone.
    fn previous(&self, path: &NotePath) -> Result<Previous, NotesError> {
        let no_history = || NotesError::NoHistory { path: path.to_string() };
        let latest = self.inner.history.latest(path.as_str())?.ok_or_else(no_history)?;
        let is_undo = latest.action == VersionAction::Undo;
        let base = latest.restores.filter(|_| is_undo).unwrap_or(latest.id);
        // What an undo went back to may be forgotten by now.
        let version = self.inner.history.version(base)?.ok_or_else(no_history)?;
        if let Some(from) = version.moved_from {
            return Ok(Previous::Moved(from));
        }
        let earlier = self.inner.history.versions(path.as_str(), Some(base), 1)?;
        match earlier.into_iter().next().filter(|version| self.scope.can_read(&version.path)) {
            Some(version) => Ok(Previous::Version(version)),
            // What was before the first known version of a file made by hand is not known.
            None if version.action == VersionAction::Outside => Err(no_history()),
            None => Ok(Previous::Nothing),
        }
    }
}

/// What an undo goes back to.
enum Previous {
    Version(Version),
    /// The note did not exist.
    Nothing,
    /// The note was elsewhere.
    Moved(String),
}
