//! `move`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::relink::Relinker;
use crate::change::Batch;
use crate::disk::{Found, WriteLock};
use crate::error::NotesError;
use crate::etag::{Etag, IfMatch};
use crate::history::{NewVersion, Plan, PlanStep, VersionAction};
use crate::index::Resolver;
use crate::limits::MAX_NOTE;
use crate::path::NotePath;
use crate::view::View;

/// How often a move is tried again because another program changed the note at the same moment.
const ATTEMPTS: usize = 8;

/// Moves or renames a note, and rewrites the links that mean it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MoveNote {
    /// The note.
    pub path: NotePath,
    /// Its new path; folders are created.
    pub new_path: NotePath,
    /// Whether to replace a note at the new path.
    #[serde(default)]
    pub overwrite: bool,
    /// Move only if the note is still this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<IfMatch>,
}

/// A note was moved.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Moved {
    /// False if both paths are the same.
    pub moved: bool,
    /// The old path.
    pub from: NotePath,
    /// The new path.
    pub to: NotePath,
    /// The etag at the new path; another one than before if links in the note were rewritten.
    pub etag: Etag,
    /// The notes in which links were rewritten.
    pub rewritten: Vec<RewrittenNote>,
    /// Number of notes with links to the old path that were not rewritten: the caller may not change those notes, another
    /// program changed them at the same moment, or their links cannot express the new path.
    pub notes_left: u64,
}

/// A note in which links were rewritten.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RewrittenNote {
    /// The note, at its new path.
    pub path: String,
    /// Number of links.
    pub links: usize,
}

/// What a move will do.
struct Prepared {
    batch: Batch,
    etag: Etag,
    rewritten: Vec<RewrittenNote>,
    left: u64,
}

impl View {
    /// Moves a note.
    pub fn relocate(&self, request: &MoveNote) -> Result<Moved, NotesError> {
        let (from, to) = (&request.path, &request.new_path);
        self.require_write(from)?;
        self.require_write(to)?;
        for _ in 0..ATTEMPTS {
            let lock = self.inner.lock()?;
            // A link that was written by hand since the last scan counts, too.
            self.inner.scan(&lock)?;
            let found = self.existing(from)?;
            let mut nothing = |_: Option<&[u8]>| Ok(None);
            self.check(from, request.if_match, Some(&found), &mut nothing, &lock)?;
            if from == to {
                let etag = Etag::of(&found.bytes);
                let (from, to) = (from.clone(), to.clone());
                return Ok(Moved { moved: false, from, to, etag, rewritten: Vec::new(), notes_left: 0 });
            }
            let replaced = self.inner.directory.read(to.as_str())?;
            if replaced.is_some() && !request.overwrite {
                return Err(NotesError::Exists { path: to.to_string() });
            }
            if let Some(moved) = self.attempt(&lock, from, to, &found, replaced)? {
                return Ok(moved);
            }
        }
        Err(NotesError::Busy { path: from.to_string() })
    }

    fn attempt(
        &self,
        lock: &WriteLock,
        from: &NotePath,
        to: &NotePath,
        found: &Found,
        replaced: Option<Found>,
    ) -> Result<Option<Moved>, NotesError> {
        let prepared = self.prepare(from, to, found, replaced)?;
        let Some(reached) = self.inner.change_all(lock, &prepared.batch)? else { return Ok(None) };
        let planned = prepared.rewritten.len();
        let rewritten: Vec<RewrittenNote> =
            prepared.rewritten.into_iter().filter(|note| reached.contains(&note.path)).collect();
        let notes_left = prepared.left + (planned - rewritten.len()) as u64;
        // What the caller may not see is only counted.
        let rewritten = rewritten.into_iter().filter(|note| self.scope.can_read(&note.path)).collect();
        let (from, to) = (from.clone(), to.clone());
        Ok(Some(Moved { moved: true, from, to, etag: prepared.etag, rewritten, notes_left }))
    }

    fn prepare(
        &self,
        from: &NotePath,
        to: &NotePath,
        found: &Found,
        replaced: Option<Found>,
    ) -> Result<Prepared, NotesError> {
        let (index, config) = (&self.inner.index, &self.inner.config);
        let mut relinker = Relinker {
            config,
            from: from.as_str(),
            to: to.as_str(),
            before: Resolver::new(index, config),
            after: Resolver::after_move(index, config, from.as_str(), to.as_str()),
        };
        let mut writes = Vec::new();
        let mut rewritten = Vec::new();
        let mut left = 0;
        let mut sources = index.possible_sources(config, from.as_str())?;
        sources.retain(|source| source != from.as_str() && source != to.as_str());
        for source in sources {
            let source = NotePath::parse(&source)?;
            let Some(note) = self.inner.directory.read(source.as_str())? else { continue };
            let Ok(text) = str::from_utf8(&note.bytes) else { continue };
            let relinked = relinker.relink(source.as_str(), text)?;
            let is_allowed = self.scope.can_write(source.as_str()) && relinked.text.len() <= MAX_NOTE;
            left += u64::from(relinked.broken > 0 || (relinked.rewritten > 0 && !is_allowed));
            if relinked.meant == 0 || !is_allowed {
                continue;
            }
            let links = relinked.rewritten.max(1);
            let new = self.as_it_was(&mut relinker, &source, source.as_str(), &note, relinked.text)?;
            if new.as_bytes() == note.bytes {
                continue;
            }
            rewritten.push(RewrittenNote { path: source.to_string(), links });
            writes.push((source, note, new.into_bytes()));
        }
        let mut own = found.bytes.clone();
        if config.strip_extension(from.name()).is_some()
            && let Ok(text) = str::from_utf8(&found.bytes)
        {
            let relinked = relinker.relink(from.as_str(), text)?;
            left += u64::from(relinked.broken > 0);
            if relinked.text.len() <= MAX_NOTE {
                own = self.as_it_was(&mut relinker, from, to.as_str(), found, relinked.text)?.into_bytes();
            }
            if own != found.bytes {
                rewritten.push(RewrittenNote { path: to.to_string(), links: relinked.rewritten });
            }
        }
        let etag = Etag::of(&own);
        let batch = self.batch(from, to, found, replaced, writes, own)?;
        Ok(Prepared { batch, etag, rewritten, left })
    }

    /// A note whose links were rewritten by the last move gets back the spelling it had before, if that means the same now.
    /// So moving a note there and back changes nothing.
    fn as_it_was(
        &self,
        relinker: &mut Relinker<'_>,
        path: &NotePath,
        new_path: &str,
        note: &Found,
        text: String,
    ) -> Result<String, NotesError> {
        let versions = self.inner.history.versions(path.as_str(), None, 2)?;
        let [latest, earlier] = &*versions else { return Ok(text) };
        let is_relinked = matches!(latest.action, VersionAction::Relink | VersionAction::Move)
            && latest.etag() == Some(Etag::of(&note.bytes));
        let Ok(current) = str::from_utf8(&note.bytes) else { return Ok(text) };
        let Some(stored) = earlier.stored.filter(|_| is_relinked) else { return Ok(text) };
        let Ok(old) = String::from_utf8(self.inner.history.content(&stored)?) else { return Ok(text) };
        Ok(if relinker.is_equivalent(new_path, &old, current, &text)? { old } else { text })
    }

    fn batch(
        &self,
        from: &NotePath,
        to: &NotePath,
        found: &Found,
        replaced: Option<Found>,
        writes: Vec<(NotePath, Found, Vec<u8>)>,
        own: Vec<u8>,
    ) -> Result<Batch, NotesError> {
        let all: Vec<_> = std::iter::once((to.clone(), found.clone(), own)).chain(writes).collect();
        let contents: Vec<&[u8]> = all.iter().map(|(.., bytes)| &**bytes).collect();
        let (stored, lease) = self.inner.history.put(&contents)?;
        let mut batch = Batch {
            plan: Plan { steps: Vec::new(), versions: Vec::new() },
            before: vec![(from.clone(), found.clone())],
            after: Vec::new(),
            _lease: lease,
        };
        let before = Etag::of(&found.bytes);
        if let Some(replaced) = replaced {
            batch
                .plan
                .steps
                .push(PlanStep::Remove { path: to.to_string(), before: Etag::of(&replaced.bytes) });
            batch.before.push((to.clone(), replaced));
        }
        batch.plan.steps.push(PlanStep::Rename { from: from.to_string(), to: to.to_string(), etag: before });
        let version = |path: &NotePath, action, stored| NewVersion {
            author: self.author.clone(),
            ..NewVersion::new(path.as_str(), action, stored)
        };
        let away = version(from, VersionAction::Move, None);
        batch.plan.versions.push(NewVersion { moved_to: Some(to.to_string()), ..away });
        for ((path, note, bytes), stored) in all.into_iter().zip(stored) {
            let is_moved = path == *to;
            if !is_moved || bytes != note.bytes {
                batch.plan.steps.push(PlanStep::Write {
                    path: path.to_string(),
                    before: Etag::of(&note.bytes),
                    after: stored,
                    mode: note.stat.mode,
                });
            }
            let action = if is_moved { VersionAction::Move } else { VersionAction::Relink };
            let moved_from = is_moved.then(|| from.to_string());
            batch.plan.versions.push(NewVersion { moved_from, ..version(&path, action, Some(stored)) });
            if !is_moved {
                batch.before.push((path.clone(), note));
            }
            batch.after.push((path, bytes));
        }
        Ok(batch)
    }
}
