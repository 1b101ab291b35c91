//! Carries changes out: files, history, index. See [`crate::history`] for the order.

use std::collections::BTreeSet;

use agentiso_core::{Code, chain};
use agentiso_store::Lease;

use crate::disk::{Found, Published, Staged, WriteLock};
use crate::error::NotesError;
use crate::etag::Etag;
use crate::history::{NewVersion, Plan, PlanStep, Stored, VersionAction};
use crate::index::now_ns;
use crate::limits::MAX_NOTE;
use crate::notes::Inner;
use crate::path::NotePath;
use crate::steps::Step;

/// A change of one file.
pub(crate) struct Change<'c> {
    pub(crate) path: &'c NotePath,
    /// What is there.
    pub(crate) before: Option<&'c Found>,
    /// What will be there; nothing to remove the file.
    pub(crate) after: Option<&'c [u8]>,
    pub(crate) action: VersionAction,
    pub(crate) author: Option<&'c str>,
    pub(crate) restores: Option<u64>,
}

/// Reads the new content of a path.
type ContentOf<'c> = dyn Fn(&str, &Stored) -> Result<Vec<u8>, NotesError> + 'c;

/// A change of several files, with the contents that its plan names.
pub(crate) struct Batch {
    pub(crate) plan: Plan,
    /// Files as they are, to be recorded if they are not yet.
    pub(crate) before: Vec<(NotePath, Found)>,
    /// New contents of the files that the plan writes.
    pub(crate) after: Vec<(NotePath, Vec<u8>)>,
    /// Keeps the new contents in the store until they are recorded.
    pub(crate) _lease: Lease,
}

impl Inner {
    pub(crate) fn step(&self, step: Step) -> Result<(), NotesError> {
        self.steps.reach(step).map_err(NotesError::io("write to", &self.config.path))
    }

    /// Changes one file.
    pub(crate) fn change(&self, lock: &WriteLock, change: &Change<'_>) -> Result<Published, NotesError> {
        let Change { path, before, after, .. } = *change;
        if let Some(after) = after
            && after.len() > MAX_NOTE
        {
            let size = after.len() as u64;
            return Err(NotesError::TooLarge { path: path.to_string(), size, max: MAX_NOTE });
        }
        let known = self.history.latest(path.as_str())?.and_then(|version| version.etag());
        let unknown = before.filter(|before| known != Some(Etag::of(&before.bytes)));
        let mut contents: Vec<&[u8]> = Vec::new();
        contents.extend(after);
        contents.extend(unknown.map(|before| &*before.bytes));
        let (stored, _lease) = self.history.put(&contents)?;
        let mut stored = stored.into_iter();
        let version = NewVersion {
            author: change.author.map(str::to_owned),
            restores: change.restores,
            ..NewVersion::new(path.as_str(), change.action, after.and_then(|_| stored.next()))
        };
        self.step(Step::ContentsStored)?;
        if unknown.is_some() {
            self.history.record(&[NewVersion::new(path.as_str(), VersionAction::Outside, stored.next())])?;
        }
        if self.publish(path, before, after)? == Published::Raced {
            return Ok(Published::Raced);
        }
        // The change has happened. What fails from here on is made up for: the next change of the note records this
        // version, and the next scan indexes it.
        let finish = || {
            self.step(Step::AllPublished)?;
            self.history.record(&[version])?;
            self.step(Step::Recorded)?;
            self.reindex(lock, [path.as_str()])?;
            self.step(Step::Indexed)?;
            self.history.tidy()
        };
        finish().unwrap_or_else(|error: NotesError| {
            tracing::warn!(path = %path, error = %chain(&error), "a note was changed but not recorded");
        });
        Ok(Published::Yes)
    }

    fn publish(
        &self,
        path: &NotePath,
        before: Option<&Found>,
        after: Option<&[u8]>,
    ) -> Result<Published, NotesError> {
        let expected = before.map(|before| Etag::of(&before.bytes));
        let published = match (after, expected) {
            (Some(after), _) => {
                let staged = self.directory.stage(path, after, before.map(|before| before.stat.mode))?;
                staged.sync(&self.directory)?;
                self.step(Step::Staged)?;
                staged.publish(&self.directory, expected)?
            }
            (None, Some(expected)) => self.directory.remove(path, expected)?,
            (None, None) => Published::Yes,
        };
        self.step(Step::Published)?;
        self.directory.sync_folder_of(path.as_str())?;
        Ok(published)
    }

    /// Reads files again and indexes them.
    pub(crate) fn reindex<'p>(
        &self,
        _lock: &WriteLock,
        paths: impl IntoIterator<Item = &'p str>,
    ) -> Result<(), NotesError> {
        let checked_ns = now_ns();
        let mut changed = Vec::new();
        for path in paths {
            changed.push((path.to_owned(), self.directory.read(path)?));
        }
        self.index.apply(&self.config, &changed, checked_ns)
    }

    /// Changes several files. Files that another program changes meanwhile are left to it, except the first ones, without
    /// which nothing is changed. Returns the paths that were reached.
    pub(crate) fn change_all(
        &self,
        lock: &WriteLock,
        batch: &Batch,
    ) -> Result<Option<Vec<String>>, NotesError> {
        let mut unknown: Vec<(&str, &[u8])> = Vec::new();
        for (path, found) in &batch.before {
            let known = self.history.latest(path.as_str())?.and_then(|version| version.etag());
            if known != Some(Etag::of(&found.bytes)) {
                unknown.push((path.as_str(), &found.bytes));
            }
        }
        let contents: Vec<&[u8]> = unknown.iter().map(|(_, bytes)| *bytes).collect();
        let (stored, _lease) = self.history.put(&contents)?;
        self.step(Step::ContentsStored)?;
        let earlier: Vec<NewVersion> = unknown
            .iter()
            .zip(stored)
            .map(|((path, _), stored)| NewVersion::new(path, VersionAction::Outside, Some(stored)))
            .collect();
        self.history.begin(&batch.plan, &earlier)?;
        self.step(Step::Planned)?;
        let contents = |path: &str, _: &Stored| {
            let found = batch.after.iter().find(|(known, _)| known.as_str() == path);
            Ok(found.map(|(_, bytes)| bytes.clone()).unwrap_or_default())
        };
        // Everything that can fail for lack of space or rights comes before the first change.
        let staged = match self.stage_all(&batch.plan, &contents, false) {
            Ok(staged) => staged,
            Err(error) => {
                self.history.complete(&[])?;
                return Err(error);
            }
        };
        if !self.carry_out(&batch.plan, staged)? {
            self.put_back(batch)?;
            self.history.complete(&[])?;
            return Ok(None);
        }
        self.finish(lock, &batch.plan).map(Some)
    }

    /// Completes the plan of a process that was killed.
    pub(crate) fn resume(&self, lock: &WriteLock) -> Result<(), NotesError> {
        let Some(plan) = self.history.unfinished()? else { return Ok(()) };
        let staged = self.stage_all(&plan, &|_, stored| self.history.content(stored), true)?;
        self.carry_out(&plan, staged)?;
        self.finish(lock, &plan)?;
        Ok(())
    }

    /// Restores a note that was removed to make room for one that then was not moved.
    fn put_back(&self, batch: &Batch) -> Result<(), NotesError> {
        for step in &batch.plan.steps {
            let PlanStep::Remove { path, .. } = step else { continue };
            let found = batch.before.iter().find(|(known, _)| known.as_str() == path);
            if let Some((path, found)) = found
                && self.etag(path.as_str())?.is_none()
            {
                let staged = self.directory.stage(path, &found.bytes, Some(found.stat.mode))?;
                staged.sync(&self.directory)?;
                staged.publish(&self.directory, None)?;
            }
        }
        Ok(())
    }

    fn finish(&self, lock: &WriteLock, plan: &Plan) -> Result<Vec<String>, NotesError> {
        let mut reached = Vec::new();
        for version in &plan.versions {
            if self.etag(&version.path)? == version.stored.map(|stored| stored.etag) {
                reached.push(version.clone());
            }
        }
        self.history.complete(&reached)?;
        self.step(Step::Recorded)?;
        self.reindex(lock, plan.versions.iter().map(|version| &*version.path))?;
        self.step(Step::Indexed)?;
        self.history.tidy()?;
        Ok(reached.into_iter().map(|version| version.path).collect())
    }

    fn etag(&self, path: &str) -> Result<Option<Etag>, NotesError> {
        match self.directory.read(path) {
            Ok(found) => Ok(found.map(|found| Etag::of(&found.bytes))),
            // Something else took its place.
            Err(NotesError::NotAFile { .. } | NotesError::TooLarge { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the new contents of files that are as the plan expects them to temporary files.
    fn stage_all(
        &self,
        plan: &Plan,
        content: &ContentOf<'_>,
        is_resumed: bool,
    ) -> Result<Vec<(Staged, Etag)>, NotesError> {
        let mut staged = Vec::new();
        for step in &plan.steps {
            let PlanStep::Write { path, before, after, mode } = step else { continue };
            // The moved note may still be at its old path.
            let now = match plan.rename() {
                Some((from, to)) if to == path && self.etag(to)? != Some(*before) => from,
                _ => path,
            };
            if self.etag(now)? != Some(*before) {
                continue;
            }
            let stage = || {
                let staged =
                    self.directory.stage(&NotePath::parse(path)?, &content(path, after)?, Some(*mode))?;
                staged.sync(&self.directory)?;
                Ok(staged)
            };
            match stage() {
                Ok(ready) => staged.push((ready, *before)),
                // One file that can no longer be written must not keep all others from being changed for ever.
                Err(error) if is_resumed && agentiso_core::Explain::code(&error) != Code::DiskFull => {
                    tracing::warn!(path, error = %chain(&error), "links in a note could not be rewritten");
                }
                Err(error) => return Err(error),
            }
        }
        self.step(Step::Staged)?;
        Ok(staged)
    }

    /// Carries out what is not done yet. Returns false if the note to be moved has changed, or its new path is in use.
    fn carry_out(&self, plan: &Plan, staged: Vec<(Staged, Etag)>) -> Result<bool, NotesError> {
        let mut folders = BTreeSet::new();
        for step in &plan.steps {
            match step {
                PlanStep::Remove { path, before } => {
                    // After the rename, the path is that of the moved note.
                    let is_renamed = match plan.rename() {
                        Some((from, _)) => self.etag(from)?.is_none(),
                        None => false,
                    };
                    if !is_renamed && self.etag(path)? == Some(*before) {
                        self.directory.remove(&NotePath::parse(path)?, *before)?;
                        self.step(Step::Published)?;
                    }
                }
                PlanStep::Rename { from, to, etag } => {
                    if self.etag(from)? == Some(*etag) {
                        let (from, to) = (NotePath::parse(from)?, NotePath::parse(to)?);
                        if self.directory.rename(&from, &to, *etag)? == Published::Raced {
                            return Ok(false);
                        }
                        self.step(Step::Published)?;
                    } else if self.etag(to)?.is_none() {
                        return Ok(false);
                    }
                    folders.extend([from, to].map(|path| folder_of(path)));
                }
                PlanStep::Write { path, .. } => {
                    folders.insert(folder_of(path));
                }
            }
        }
        for (staged, before) in staged {
            // If another program was faster, its change stays.
            staged.publish(&self.directory, Some(before))?;
            self.step(Step::Published)?;
        }
        folders.into_iter().try_for_each(|folder| self.directory.sync_folder_at(folder))?;
        self.step(Step::AllPublished)?;
        Ok(true)
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
