//! The directory of notes with its index and history.

use std::path::Path;
use std::sync::Arc;

use crate::config::NotesConfig;
use crate::disk::{Directory, WriteLock, create_private};
use crate::error::NotesError;
use crate::etag::Etag;
use crate::history::{History, Kept, NewVersion, Retention, Version, VersionAction};
use crate::index::{Index, Noticed, Observer, ScanReport};
use crate::limits::MAX_HISTORY;
use crate::path::NotePath;
use crate::scope::Scope;
use crate::steps::Steps;
use crate::view::View;

/// A directory of notes. Clones share what is open; any number of processes can use the same directory.
#[derive(Clone, Debug)]
pub struct Notes(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: NotesConfig,
    pub(crate) directory: Directory,
    pub(crate) index: Index,
    pub(crate) history: History,
    pub(crate) steps: Steps,
}

impl Notes {
    /// Opens the notes, completes what a killed process has left unfinished, and brings the index up to date.
    pub fn open(config: NotesConfig) -> Result<Self, NotesError> {
        Self::open_with(config, Steps::default())
    }

    /// The same, with an observer of the steps of changes.
    pub fn open_with(config: NotesConfig, steps: Steps) -> Result<Self, NotesError> {
        if !config.enabled {
            return Err(NotesError::Disabled);
        }
        if config.state.starts_with(&config.path) || config.path.starts_with(&config.state) {
            let reason = "neither the directory of notes nor that of their index may be inside the other";
            return Err(NotesError::invalid("path", reason));
        }
        create_private(&config.state)?;
        let directory = Directory::open(&config.path)?;
        let lock = WriteLock::wait(&config.state)?;
        let history = History::open(&config.state, &lock)?;
        let (index, _) = Index::open(&config.state, &lock)?;
        let inner = Inner { config, directory, index, history, steps };
        inner.resume(&lock)?;
        inner.scan(&lock)?;
        Ok(Self(Arc::new(inner)))
    }

    /// The notes as a caller sees them. `author` is recorded with each change.
    pub fn view(&self, scope: Scope, author: Option<String>) -> View {
        View { inner: self.0.clone(), scope, author }
    }

    /// The directory of notes.
    pub fn path(&self) -> &Path {
        &self.0.config.path
    }

    /// Compares the index with all files. Needed only if nobody watches them: changes through this crate are indexed at
    /// once.
    pub fn scan(&self) -> Result<ScanReport, NotesError> {
        let lock = self.0.lock()?;
        self.0.scan(&lock)
    }

    /// Looks at files that may have changed. Returns how many have.
    pub fn refresh(&self, paths: &[NotePath]) -> Result<u64, NotesError> {
        let lock = self.0.lock()?;
        let mut changed = 0;
        for path in paths {
            changed += u64::from(self.0.refresh(&lock, path.as_str())?);
        }
        Ok(changed)
    }

    /// Empties the index and fills it from the files.
    pub fn rebuild(&self) -> Result<ScanReport, NotesError> {
        let lock = self.0.lock()?;
        self.0.index.clear(&lock)?;
        self.0.scan(&lock)
    }

    /// Forgets old versions. Meant to be called by a daemon from time to time.
    pub fn expire(&self, retention: Retention) -> Result<Kept, NotesError> {
        let lock = self.0.lock()?;
        self.0.history.expire(retention, lock)
    }
}

impl Inner {
    /// Waits until nobody else writes, and completes what a killed process has left unfinished.
    pub(crate) fn lock(&self) -> Result<WriteLock, NotesError> {
        let lock = WriteLock::wait(&self.config.state)?;
        self.resume(&lock)?;
        Ok(lock)
    }

    pub(crate) fn scan(&self, lock: &WriteLock) -> Result<ScanReport, NotesError> {
        self.index.scan(&self.directory, &self.config, lock, &mut Outside::new(self))
    }

    pub(crate) fn refresh(&self, lock: &WriteLock, path: &str) -> Result<bool, NotesError> {
        if self.config.is_excluded(path) {
            return Ok(false);
        }
        self.index.refresh(&self.directory, &self.config, path, lock, &mut Outside::new(self))
    }
}

/// Bytes of changes that are collected before they are recorded.
const BATCH: usize = 8 << 20;

/// Records changes of other programs in the history.
struct Outside<'i> {
    inner: &'i Inner,
    noticed: Vec<Noticed>,
    bytes: usize,
}

impl<'i> Outside<'i> {
    fn new(inner: &'i Inner) -> Self {
        Self { inner, noticed: Vec::new(), bytes: 0 }
    }
}

impl Observer for Outside<'_> {
    fn notice(&mut self, noticed: Noticed) -> Result<(), NotesError> {
        let contents = [&noticed.before, &noticed.after];
        self.bytes += 64 + contents.into_iter().flatten().map(Vec::len).sum::<usize>();
        self.noticed.push(noticed);
        if self.bytes > BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), NotesError> {
        let noticed = std::mem::take(&mut self.noticed);
        self.bytes = 0;
        let history = &self.inner.history;
        let mut versions: Vec<(&str, Option<&[u8]>)> = Vec::new();
        for Noticed { path, before, after } in &noticed {
            let recorded = history.versions(path, None, MAX_HISTORY)?;
            let latest = recorded.first().and_then(Version::etag);
            let now = after.as_deref().map(Etag::of);
            if latest == now {
                // A change through this crate that was recorded and not indexed.
                continue;
            }
            let is_recorded =
                |content: &[u8]| recorded.iter().any(|version| version.etag() == Some(Etag::of(content)));
            let contents =
                [before.as_deref().filter(|before| !is_recorded(before)).map(Some), Some(after.as_deref())];
            versions.extend(contents.into_iter().flatten().map(|content| (&**path, content)));
        }
        if versions.is_empty() {
            return Ok(());
        }
        let contents: Vec<&[u8]> = versions.iter().filter_map(|(_, content)| *content).collect();
        let (stored, _lease) = history.put(&contents)?;
        let mut stored = stored.into_iter();
        let recorded: Vec<NewVersion> = versions
            .into_iter()
            .map(|(path, content)| {
                NewVersion::new(path, VersionAction::Outside, content.and_then(|_| stored.next()))
            })
            .collect();
        history.record(&recorded)
    }
}
