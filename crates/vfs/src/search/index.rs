//! The file of the index.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::VfsError;

const PATIENCE: Duration = Duration::from_secs(30);
/// How words are recognised, in the index and in excerpts.
pub(super) const TOKENIZER: &str = "porter unicode61";
/// Another number makes programs rebuild the index.
const FORMAT: i64 = 1;

/// The index, opened when it is first used.
#[derive(Debug)]
pub(crate) struct SearchIndex {
    path: PathBuf,
    connection: Mutex<Option<Connection>>,
}

impl SearchIndex {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), connection: Mutex::new(None) }
    }

    /// Size of the index and its log.
    pub(crate) fn size(&self) -> u64 {
        files(&self.path)
            .iter()
            .filter_map(|path| fs::metadata(path).ok())
            .map(|metadata| metadata.len())
            .sum()
    }

    /// Runs something on the index. If the index turns out to be damaged, it is made anew, empty, and `run` runs again.
    pub(crate) fn with<T>(
        &self,
        mut run: impl FnMut(&Connection) -> Result<T, VfsError>,
    ) -> Result<T, VfsError> {
        match self.attempt(&mut run) {
            Err(VfsError::Records { .. }) => {
                self.discard()?;
                self.attempt(&mut run)
            }
            other => other,
        }
    }

    fn attempt<T>(&self, run: &mut impl FnMut(&Connection) -> Result<T, VfsError>) -> Result<T, VfsError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.is_none() {
            *connection = Some(connect(&self.path).map_err(|error| error.at(&self.path))?);
        }
        match connection.as_ref() {
            Some(connection) => run(connection).map_err(|error| error.at(&self.path)),
            None => Err(VfsError::invalid("the search index", "it could not be opened")),
        }
    }

    /// Removes the index. Processes that have it open continue with the old one until they end.
    pub(crate) fn discard(&self) -> Result<(), VfsError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        *connection = None;
        for path in files(&self.path) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(VfsError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn files(path: &Path) -> Vec<PathBuf> {
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    vec![with(""), with("-wal"), with("-shm")]
}

fn connect(path: &Path) -> Result<Connection, VfsError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Whatever a power failure takes from the index is indexed again.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > FORMAT {
        return Err(VfsError::TooNew { path: path.to_owned(), found, known: FORMAT });
    }
    if found < FORMAT {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             CREATE TABLE IF NOT EXISTS texts (id INTEGER PRIMARY KEY, content BLOB NOT NULL UNIQUE) STRICT;
             CREATE TABLE IF NOT EXISTS directories (tree BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;
             CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
                 body, content = '', contentless_delete = 1, tokenize = '{TOKENIZER}');
             PRAGMA user_version = {FORMAT};
             COMMIT;"
        ))?;
    }
    Ok(connection)
}
