//! The tables of the index.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::database::Database;
use crate::disk::WriteLock;
use crate::error::NotesError;

/// Raised whenever the tables, or what is put into them, change; an index of another format is rebuilt.
const FORMAT: i64 = 1;

const TABLES: &str = "
CREATE TABLE note (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    -- The lower-case name by which links find it.
    key TEXT NOT NULL,
    is_note INTEGER NOT NULL,
    size INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    changed_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    -- When the file was read.
    checked_ns INTEGER NOT NULL,
    -- Absent if the content is not indexed.
    etag BLOB,
    title TEXT,
    problem TEXT
) STRICT;
CREATE INDEX note_key ON note (key);
CREATE INDEX note_modified ON note (modified_ns) WHERE is_note;
CREATE TABLE body (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
CREATE TABLE tag (folded TEXT NOT NULL, note INTEGER NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (folded, note))
    STRICT, WITHOUT ROWID;
CREATE INDEX tag_note ON tag (note);
CREATE TABLE link (
    note INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    is_wiki INTEGER NOT NULL,
    is_embed INTEGER NOT NULL,
    target TEXT NOT NULL,
    key TEXT NOT NULL,
    line INTEGER NOT NULL,
    PRIMARY KEY (note, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_key ON link (key, note);
CREATE VIRTUAL TABLE words USING fts5 (
    name, headings, tags, body,
    content = '', contentless_delete = 1, tokenize = \"unicode61 remove_diacritics 2\"
);
";

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    pub(super) database: Database,
}

impl Index {
    /// Opens the index. Returns whether it has to be filled: it is new, damaged or of another format.
    pub(crate) fn open(state: &Path, _lock: &WriteLock) -> Result<(Self, bool), NotesError> {
        let index = Self { database: Database::new(state.join("index.db"), false) };
        match index.database.with(prepare) {
            Ok(is_new) => Ok((index, is_new)),
            Err(NotesError::Damaged { .. }) => {
                index.database.remove()?;
                index.database.with(prepare)?;
                Ok((index, true))
            }
            Err(error) => Err(error),
        }
    }

    /// Empties the index.
    pub(crate) fn clear(&self, _lock: &WriteLock) -> Result<(), NotesError> {
        self.database.with(recreate)
    }
}

fn prepare(connection: &mut Connection) -> Result<bool, rusqlite::Error> {
    let format: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if format == FORMAT {
        // Finds a file whose first page is damaged.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        return Ok(false);
    }
    recreate(connection)?;
    Ok(true)
}

fn recreate(connection: &mut Connection) -> Result<(), rusqlite::Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for table in ["words", "link", "tag", "body", "note"] {
        transaction.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}
