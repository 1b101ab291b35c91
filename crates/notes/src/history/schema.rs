//! The tables of the history.

use std::path::Path;

use agentiso_store::{Options, Store};
use rusqlite::{Connection, TransactionBehavior};

use crate::database::Database;
use crate::disk::WriteLock;
use crate::error::NotesError;

/// Raised whenever the tables change.
const FORMAT: i64 = 1;

const TABLES: &str = "
CREATE TABLE version (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    author TEXT,
    action TEXT NOT NULL,
    -- Absent if the note was removed.
    etag BLOB,
    size INTEGER NOT NULL,
    -- 0: empty, 1: one blob, 2: chunks. See the store.
    kind INTEGER NOT NULL,
    content BLOB,
    moved_from TEXT,
    moved_to TEXT,
    -- The version that an undo went back to.
    restores INTEGER
) STRICT;
CREATE INDEX version_path ON version (path, id);
CREATE TABLE plan (only INTEGER PRIMARY KEY CHECK (only = 1), json TEXT NOT NULL) STRICT;
";

/// The history of all notes.
#[derive(Debug)]
pub(crate) struct History {
    pub(super) database: Database,
    pub(super) store: Store,
}

impl History {
    /// Opens the history; creates it if it does not exist.
    pub(crate) fn open(state: &Path, _lock: &WriteLock) -> Result<Self, NotesError> {
        let database = Database::new(state.join("history.db"), true);
        database.with_any(|connection| prepare(connection, database.path()))?;
        let store = Store::open_or_create(&state.join("store"), Options::default())?;
        Ok(Self { database, store })
    }
}

fn prepare(connection: &mut Connection, path: &Path) -> Result<(), NotesError> {
    let failed = NotesError::database(path);
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(&failed)?;
    match found {
        FORMAT => Ok(()),
        0 => {
            let mut create = || {
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                transaction.execute_batch(TABLES)?;
                transaction.pragma_update(None, "user_version", FORMAT)?;
                transaction.commit()
            };
            create().map_err(&failed)
        }
        _ => Err(NotesError::TooNew { path: path.to_owned(), found, known: FORMAT }),
    }
}
