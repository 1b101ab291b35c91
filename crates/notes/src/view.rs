//! The notes as one caller sees them.

use std::sync::Arc;

use crate::conflict::Conflict;
use crate::disk::{Found, Published, WriteLock};
use crate::error::NotesError;
use crate::etag::{Etag, IfMatch};
use crate::history::VersionAction;
use crate::notes::Inner;
use crate::path::NotePath;
use crate::scope::Scope;

/// How often a change is tried again because another program changed the note at the same moment.
const ATTEMPTS: usize = 8;

/// The notes as one caller sees them: restricted to a scope, with its name on every change. Each action is a method; see
/// also [`View::act`].
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) inner: Arc<Inner>,
    pub(crate) scope: Scope,
    pub(crate) author: Option<String>,
}

/// What a change has led to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Changed {
    /// Nothing if the note does not exist any more.
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) is_created: bool,
    /// Whether anything is different now.
    pub(crate) is_changed: bool,
}

impl Changed {
    pub(crate) fn etag(&self) -> Option<Etag> {
        self.content.as_deref().map(Etag::of)
    }
}

/// Computes the new content of a note; nothing removes it.
pub(crate) type Edit<'e> = dyn FnMut(Option<&[u8]>) -> Result<Option<Vec<u8>>, NotesError> + 'e;

impl View {
    pub(crate) fn require_read(&self, path: &NotePath) -> Result<(), NotesError> {
        self.scope.require_read(path.as_str())?;
        self.require_included(path)
    }

    pub(crate) fn require_write(&self, path: &NotePath) -> Result<(), NotesError> {
        self.scope.require_write(path.as_str())?;
        self.require_included(path)
    }

    fn require_included(&self, path: &NotePath) -> Result<(), NotesError> {
        if self.inner.config.is_excluded(path.as_str()) {
            let reason = "it is in a folder that the configuration excludes";
            return Err(NotesError::InvalidPath { path: path.to_string(), reason });
        }
        Ok(())
    }

    /// Reads a note that must exist.
    pub(crate) fn existing(&self, path: &NotePath) -> Result<Found, NotesError> {
        match self.inner.directory.read(path.as_str())? {
            Some(found) => Ok(found),
            None => Err(self.not_found(path)),
        }
    }

    pub(crate) fn not_found(&self, path: &NotePath) -> NotesError {
        // A failed search for a similar name must not hide what is wrong.
        let nearest = self.inner.index.nearest(&self.inner.config, &self.scope, path.as_str());
        NotesError::NotFound { path: path.to_string(), nearest: nearest.ok().flatten() }
    }

    /// Changes a note if it is what the caller expects.
    pub(crate) fn change(
        &self,
        path: &NotePath,
        if_match: Option<IfMatch>,
        action: VersionAction,
        restores: Option<u64>,
        edit: &mut Edit<'_>,
    ) -> Result<Changed, NotesError> {
        self.require_write(path)?;
        for _ in 0..ATTEMPTS {
            let lock = self.inner.lock()?;
            let found = self.inner.directory.read(path.as_str())?;
            self.check(path, if_match, found.as_ref(), edit, &lock)?;
            let before = found.as_ref().map(|found| &*found.bytes);
            let after = edit(before)?;
            if after.as_deref() == before {
                return Ok(Changed { content: after, is_created: false, is_changed: false });
            }
            let change = crate::change::Change {
                path,
                before: found.as_ref(),
                after: after.as_deref(),
                action,
                author: self.author.as_deref(),
                restores,
            };
            if self.inner.change(&lock, &change)? == Published::Yes {
                return Ok(Changed { content: after, is_created: found.is_none(), is_changed: true });
            }
        }
        Err(NotesError::Busy { path: path.to_string() })
    }

    /// Refuses a change of a note that is not what the caller expects, with both versions.
    pub(crate) fn check(
        &self,
        path: &NotePath,
        if_match: Option<IfMatch>,
        found: Option<&Found>,
        edit: &mut Edit<'_>,
        lock: &WriteLock,
    ) -> Result<(), NotesError> {
        let Some(expected) = if_match else { return Ok(()) };
        let current = found.map(|found| &*found.bytes);
        let is_as_expected = match expected {
            IfMatch::Absent => current.is_none(),
            IfMatch::Is(etag) => current.map(Etag::of) == Some(etag),
        };
        if is_as_expected {
            return Ok(());
        }
        let base = match expected {
            IfMatch::Absent => None,
            IfMatch::Is(etag) => self.known(path, etag)?,
        };
        // What the caller had in mind, applied to what it had seen.
        let proposed = edit(base.as_deref().or(current)).ok().flatten();
        // The other program's version is recorded now, so that it can be a base later.
        self.inner.refresh(lock, path.as_str())?;
        let conflict = Conflict::new(path.clone(), expected, current, proposed.as_deref(), base);
        Err(NotesError::Conflict(Box::new(conflict)))
    }

    /// The content with an etag that the note once had.
    fn known(&self, path: &NotePath, etag: Etag) -> Result<Option<Vec<u8>>, NotesError> {
        // Only of this note: an etag must not be a way to read others.
        for version in self.inner.history.versions(path.as_str(), None, crate::limits::MAX_HISTORY)? {
            if let Some(stored) = version.stored.filter(|stored| stored.etag == etag) {
                return self.inner.history.content(&stored).map(Some);
            }
        }
        // Changed by another program, and not noticed yet.
        let Some(row) = self.inner.index.row(path.as_str())?.filter(|row| row.etag == Some(etag)) else {
            return Ok(None);
        };
        Ok(self.inner.index.text(row.id)?.map(String::into_bytes))
    }
}

/// The text of a note.
pub(crate) fn text_of<'b>(path: &NotePath, bytes: &'b [u8]) -> Result<&'b str, NotesError> {
    str::from_utf8(bytes)
        .map_err(|error| NotesError::NotText { path: path.to_string(), at: error.valid_up_to() })
}
