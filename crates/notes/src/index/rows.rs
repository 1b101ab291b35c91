//! One file in the index.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::lookup::{key_of_path, key_of_target};
use super::schema::Index;
use crate::analysis::{Analysis, analyse};
use crate::config::NotesConfig;
use crate::disk::{Found, Stat};
use crate::error::NotesError;
use crate::etag::Etag;
use crate::markdown::LinkKind;

/// Files that changed so shortly before they were read may have changed again without another time stamp.
const RACY_NS: i64 = 50_000_000;

/// What the index has of a file.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) stat: Stat,
    pub(crate) checked_ns: i64,
    pub(crate) etag: Option<Etag>,
}

impl Row {
    /// Whether the time stamps say that the file has not changed since.
    pub(crate) fn is_unchanged(&self, stat: &Stat) -> bool {
        let parts = |stat: &Stat| (stat.size, stat.modified_ns, stat.changed_ns, stat.inode);
        parts(&self.stat) == parts(stat)
    }

    /// Whether the file certainly has not changed since.
    pub(crate) fn is_current(&self, stat: &Stat) -> bool {
        self.is_unchanged(stat) && stat.changed_ns.saturating_add(RACY_NS) < self.checked_ns
    }

    pub(super) fn read(row: &rusqlite::Row<'_>) -> Result<Self, rusqlite::Error> {
        let etag: Option<Vec<u8>> = row.get(6)?;
        Ok(Self {
            id: row.get(0)?,
            stat: Stat {
                size: row.get::<_, i64>(1)?.cast_unsigned(),
                modified_ns: row.get(2)?,
                changed_ns: row.get(3)?,
                inode: row.get::<_, i64>(4)?.cast_unsigned(),
                mode: 0,
            },
            checked_ns: row.get(5)?,
            etag: etag.as_deref().and_then(Etag::from_slice),
        })
    }
}

pub(super) const COLUMNS: &str = "id, size, modified_ns, changed_ns, inode, checked_ns, etag";

/// A file to be indexed.
pub(crate) struct Entry<'e> {
    pub(crate) path: &'e str,
    pub(crate) stat: Stat,
    pub(crate) checked_ns: i64,
    pub(crate) content: ContentOf<'e>,
}

/// What is known of the content of a file.
pub(crate) enum ContentOf<'e> {
    /// A note, or another text file that was read for the history.
    Bytes(&'e [u8]),
    /// Not read, for this reason; nothing for files that are no notes.
    Unread(Option<&'static str>),
}

/// The time of the file system's clock.
pub(crate) fn now_ns() -> i64 {
    i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

/// Puts a file into the index, in place of what the index had of it.
pub(super) fn put(
    transaction: &Transaction<'_>,
    config: &NotesConfig,
    entry: &Entry<'_>,
) -> Result<(), rusqlite::Error> {
    let is_note = config.strip_extension(name_of(entry.path)).is_some();
    let (etag, text, problem) = match entry.content {
        ContentOf::Unread(problem) => (None, None, problem.map(str::to_owned)),
        ContentOf::Bytes(bytes) if !is_note => (Some(Etag::of(bytes)), None, None),
        ContentOf::Bytes(bytes) => match str::from_utf8(bytes) {
            Ok(text) => (Some(Etag::of(bytes)), Some(text), None),
            Err(_) => (Some(Etag::of(bytes)), None, Some("it is not UTF-8 text".to_owned())),
        },
    };
    let analysis = text.map(analyse).unwrap_or_default();
    let known: Option<i64> = transaction
        .prepare_cached("SELECT id FROM note WHERE path = ?1")?
        .query_row([entry.path], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        clear(transaction, id)?;
    }
    transaction
        .prepare_cached(
            "INSERT INTO note (id, path, key, is_note, size, modified_ns, changed_ns, inode, checked_ns, etag, title,
                 problem)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            known,
            entry.path,
            key_of_path(config, entry.path),
            is_note,
            entry.stat.size.cast_signed(),
            entry.stat.modified_ns,
            entry.stat.changed_ns,
            entry.stat.inode.cast_signed(),
            entry.checked_ns,
            etag.as_ref().map(Etag::as_bytes),
            analysis.title,
            problem.or_else(|| analysis.problem.clone()),
        ])?;
    let id = known.unwrap_or_else(|| transaction.last_insert_rowid());
    if let Some(text) = text {
        put_text(transaction, config, id, entry.path, text, &analysis)?;
    }
    Ok(())
}

fn put_text(
    transaction: &Transaction<'_>,
    config: &NotesConfig,
    id: i64,
    path: &str,
    text: &str,
    analysis: &Analysis,
) -> Result<(), rusqlite::Error> {
    transaction.prepare_cached("INSERT INTO body (id, text) VALUES (?1, ?2)")?.execute(params![id, text])?;
    let mut insert =
        transaction.prepare_cached("INSERT OR IGNORE INTO tag (folded, note, tag) VALUES (?1, ?2, ?3)")?;
    for tag in &analysis.tags {
        insert.execute(params![tag.to_lowercase(), id, tag])?;
    }
    let mut insert = transaction.prepare_cached(
        "INSERT INTO link (note, ordinal, is_wiki, is_embed, target, key, line) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (ordinal, link) in (0_i64..).zip(&analysis.links) {
        let key = key_of_target(config, &link.target);
        let is_wiki = link.kind == LinkKind::Wiki;
        insert.execute(params![id, ordinal, is_wiki, link.is_embed, link.target, key, link.line as i64])?;
    }
    // The words of the path, so that a folder can be searched for, too.
    let name = config.strip_extension(path).unwrap_or(path);
    let headings = format!("{}\n{}", analysis.title.as_deref().unwrap_or_default(), analysis.headings);
    transaction
        .prepare_cached("INSERT INTO words (rowid, name, headings, tags, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![id, name, headings, analysis.tags.join(" "), text])?;
    Ok(())
}

fn clear(transaction: &Transaction<'_>, id: i64) -> Result<(), rusqlite::Error> {
    let has_text = transaction.prepare_cached("DELETE FROM body WHERE id = ?1")?.execute([id])? > 0;
    if has_text {
        transaction.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([id])?;
        transaction.prepare_cached("DELETE FROM tag WHERE note = ?1")?.execute([id])?;
        transaction.prepare_cached("DELETE FROM link WHERE note = ?1")?.execute([id])?;
    }
    transaction.prepare_cached("DELETE FROM note WHERE id = ?1")?.execute([id])?;
    Ok(())
}

/// Removes a file from the index.
pub(super) fn remove(transaction: &Transaction<'_>, path: &str) -> Result<(), rusqlite::Error> {
    let id = transaction
        .prepare_cached("SELECT id FROM note WHERE path = ?1")?
        .query_row([path], |row| row.get(0))
        .optional()?;
    id.map_or(Ok(()), |id| clear(transaction, id))
}

pub(super) fn row(connection: &Connection, path: &str) -> Result<Option<Row>, rusqlite::Error> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM note WHERE path = ?1"))?
        .query_row([path], Row::read)
        .optional()
}

pub(super) fn text(connection: &Connection, id: i64) -> Result<Option<String>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT text FROM body WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()
}

fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

impl Index {
    /// What the index has of a file.
    pub(crate) fn row(&self, path: &str) -> Result<Option<Row>, NotesError> {
        self.database.with(|connection| row(connection, path))
    }

    /// The text that the index has of a note.
    pub(crate) fn text(&self, id: i64) -> Result<Option<String>, NotesError> {
        self.database.with(|connection| text(connection, id))
    }

    /// Indexes files as they are now: those that exist with their content, and those that are gone.
    pub(crate) fn apply(
        &self,
        config: &NotesConfig,
        changed: &[(String, Option<Found>)],
        checked_ns: i64,
    ) -> Result<(), NotesError> {
        self.database.with(|connection| {
            let transaction =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            for (path, found) in changed {
                match found {
                    Some(Found { stat, bytes }) => {
                        let content = ContentOf::Bytes(bytes);
                        put(&transaction, config, &Entry { path, stat: *stat, checked_ns, content })?;
                    }
                    None => remove(&transaction, path)?,
                }
            }
            transaction.commit()
        })
    }
}
