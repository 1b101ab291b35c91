//! Compares the index with the files.

use std::collections::HashMap;

use rusqlite::{Transaction, TransactionBehavior};

use super::rows::{COLUMNS, ContentOf, Entry, Row, now_ns, put, remove, row, text};
use super::schema::Index;
use crate::config::NotesConfig;
use crate::disk::{Directory, Found, Stat, WriteLock};
use crate::error::NotesError;
use crate::etag::Etag;
use crate::limits::MAX_NOTE;
use crate::path::FolderPath;

/// A change by another program.
#[derive(Clone, Debug)]
pub(crate) struct Noticed {
    pub(crate) path: String,
    /// The text before, if the index still has it.
    pub(crate) before: Option<Vec<u8>>,
    /// The content now; nothing if the file is gone.
    pub(crate) after: Option<Vec<u8>>,
}

/// Is told what other programs have changed.
pub(crate) trait Observer {
    /// A change that the index has not seen yet.
    fn notice(&mut self, noticed: Noticed) -> Result<(), NotesError>;
    /// The index is about to forget what was there before the changes.
    fn flush(&mut self) -> Result<(), NotesError>;
}

/// What a scan found.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ScanReport {
    /// Files that exist.
    pub files: u64,
    /// Of those, files that are new or have changed.
    pub changed: u64,
    /// Files that are gone.
    pub removed: u64,
    /// Symbolic links, pipes and the like, and files whose names are not allowed.
    pub skipped: u64,
}

impl Index {
    /// Brings the index up to date with all files. Tells the observer about changes of other programs before the index forgets
    /// what was there; files that the index did not know are no changes.
    pub(crate) fn scan(
        &self,
        directory: &Directory,
        config: &NotesConfig,
        _lock: &WriteLock,
        observer: &mut dyn Observer,
    ) -> Result<ScanReport, NotesError> {
        let mut unfinished = Vec::new();
        let report = self.database.with_any(|connection| {
            let failed = NotesError::database(self.database.path());
            let mut known: HashMap<String, Row> = {
                let mut select =
                    connection.prepare(&format!("SELECT {COLUMNS}, path FROM note")).map_err(&failed)?;
                let rows = select.query_map([], |row| Ok((row.get(7)?, Row::read(row)?))).map_err(&failed)?;
                rows.collect::<Result<_, _>>().map_err(&failed)?
            };
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
            let mut report = ScanReport::default();
            let walked = directory.walk(config, &FolderPath::root(), |listed| {
                let Some(stat) = listed.file else { return Ok(true) };
                report.files += 1;
                let old = known.remove(&listed.path);
                if old.as_ref().is_some_and(|old| old.is_current(&stat)) {
                    return Ok(false);
                }
                if update(
                    &transaction,
                    directory,
                    config,
                    &listed.path,
                    stat,
                    old.as_ref(),
                    observer,
                    &failed,
                )? {
                    report.changed += 1;
                }
                Ok(false)
            })?;
            for (path, old) in known {
                let before = text(&transaction, old.id).map_err(&failed)?.map(String::into_bytes);
                observer.notice(Noticed { path: path.clone(), before, after: None })?;
                remove(&transaction, &path).map_err(&failed)?;
                report.removed += 1;
            }
            observer.flush()?;
            transaction.commit().map_err(&failed)?;
            if let Some(walked) = walked {
                report.skipped = walked.skipped;
                unfinished = walked.unfinished;
            }
            Ok(report)
        })?;
        unfinished.iter().try_for_each(|folder| directory.remove_leftovers(folder))?;
        Ok(report)
    }

    /// The same for one path. Returns whether the index has changed.
    pub(crate) fn refresh(
        &self,
        directory: &Directory,
        config: &NotesConfig,
        path: &str,
        _lock: &WriteLock,
        observer: &mut dyn Observer,
    ) -> Result<bool, NotesError> {
        let stat = match directory.stat(path) {
            Err(NotesError::NotAFile { .. }) => None,
            result => result?,
        };
        self.database.with_any(|connection| {
            let failed = NotesError::database(self.database.path());
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
            let old = row(&transaction, path).map_err(&failed)?;
            let is_changed = match (&old, stat) {
                (None, None) => false,
                (Some(old), Some(stat)) if old.is_current(&stat) => false,
                (_, Some(stat)) => {
                    update(&transaction, directory, config, path, stat, old.as_ref(), observer, &failed)?
                }
                (Some(old), None) => {
                    let before = text(&transaction, old.id).map_err(&failed)?.map(String::into_bytes);
                    observer.notice(Noticed { path: path.to_owned(), before, after: None })?;
                    remove(&transaction, path).map_err(&failed)?;
                    true
                }
            };
            observer.flush()?;
            transaction.commit().map_err(&failed)?;
            Ok(is_changed)
        })
    }
}

/// Indexes a file whose state differs from what is known. Returns whether its content does.
#[expect(clippy::too_many_arguments, reason = "one call site per loop, each with its own state")]
fn update(
    transaction: &Transaction<'_>,
    directory: &Directory,
    config: &NotesConfig,
    path: &str,
    stat: Stat,
    old: Option<&Row>,
    observer: &mut dyn Observer,
    failed: &dyn Fn(rusqlite::Error) -> NotesError,
) -> Result<bool, NotesError> {
    let checked_ns = now_ns();
    let is_note = config.strip_extension(path).is_some();
    // Other files are not read, except those that were written through this crate and so have a history.
    if !is_note && old.is_none_or(|old| old.etag.is_none()) {
        let entry = Entry { path, stat, checked_ns, content: ContentOf::Unread(None) };
        put(transaction, config, &entry).map_err(failed)?;
        return Ok(old.is_none());
    }
    let unread = |reason| Entry { path, stat, checked_ns, content: ContentOf::Unread(Some(reason)) };
    let found = match directory.read(path) {
        Ok(Some(found)) => found,
        // Removed meanwhile; the next event or scan sees that.
        Ok(None) => return Ok(false),
        Err(error) => {
            let reason = match error {
                NotesError::TooLarge { .. } => "it is too large",
                NotesError::NotAFile { .. } => return Ok(false),
                NotesError::Busy { .. } => "it changes all the time",
                error if is_forbidden(&error) => "it may not be read",
                error => return Err(error),
            };
            put(transaction, config, &unread(reason)).map_err(failed)?;
            return Ok(true);
        }
    };
    let Found { stat, bytes } = found;
    debug_assert!(bytes.len() <= MAX_NOTE);
    let etag = Etag::of(&bytes);
    let is_same = old.is_some_and(|old| old.etag == Some(etag));
    if is_same && let Some(old) = old {
        touch(transaction, old.id, &stat, checked_ns).map_err(failed)?;
        return Ok(false);
    }
    if let Some(old) = old {
        let before = text(transaction, old.id).map_err(failed)?.map(String::into_bytes);
        observer.notice(Noticed { path: path.to_owned(), before, after: Some(bytes.clone()) })?;
    }
    let entry = Entry { path, stat, checked_ns, content: ContentOf::Bytes(&bytes) };
    put(transaction, config, &entry).map_err(failed)?;
    Ok(true)
}

/// Only the time stamps differ.
fn touch(
    transaction: &Transaction<'_>,
    id: i64,
    stat: &Stat,
    checked_ns: i64,
) -> Result<(), rusqlite::Error> {
    transaction
        .prepare_cached(
            "UPDATE note SET size = ?2, modified_ns = ?3, changed_ns = ?4, inode = ?5, checked_ns = ?6 WHERE id = ?1",
        )?
        .execute(rusqlite::params![
            id,
            stat.size.cast_signed(),
            stat.modified_ns,
            stat.changed_ns,
            stat.inode.cast_signed(),
            checked_ns
        ])?;
    Ok(())
}

fn is_forbidden(error: &NotesError) -> bool {
    matches!(error, NotesError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied)
}
