//! Transactions.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row, Transaction, TransactionBehavior};

use super::schema;
use crate::VfsError;

/// How long a change waits for changes of other processes. Each takes about a millisecond.
const PATIENCE: Duration = Duration::from_secs(30);

/// The records of one directory. Threads of one process take turns.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    connection: Mutex<Connection>,
}

/// A consistent view of the records.
pub(crate) struct Read<'c> {
    connection: &'c Connection,
}

/// A change of the records, which is stored as a whole or not at all.
pub(crate) struct Tx<'c> {
    read: Read<'c>,
}

impl<'c> std::ops::Deref for Tx<'c> {
    type Target = Read<'c>;

    fn deref(&self) -> &Read<'c> {
        &self.read
    }
}

impl Database {
    /// Opens the records; creates them, readable only by their user, or migrates them.
    pub(crate) fn open(path: &Path) -> Result<Self, VfsError> {
        // An existing file is not opened: closing it would release the locks of other connections.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(VfsError::io("create", path)(error));
            }
            _ => {}
        }
        let connection = connect(path).map_err(|error| error.at(path))?;
        Ok(Self { path: path.to_owned(), connection: Mutex::new(connection) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs queries on one state of the records.
    pub(crate) fn read<T>(&self, ask: impl FnOnce(&Read<'_>) -> Result<T, VfsError>) -> Result<T, VfsError> {
        let connection = self.lock();
        let run = || {
            let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Deferred)?;
            ask(&Read { connection: &transaction })
        };
        run().map_err(|error| error.at(&self.path))
    }

    /// Changes the records. If `change` fails or the process is killed, nothing has changed.
    pub(crate) fn write<T>(
        &self,
        change: impl FnOnce(&Tx<'_>) -> Result<T, VfsError>,
    ) -> Result<T, VfsError> {
        let connection = self.lock();
        let run = || {
            let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
            let answer = change(&Tx { read: Read { connection: &transaction } })?;
            transaction.commit()?;
            Ok(answer)
        };
        run().map_err(|error: VfsError| error.at(&self.path))
    }

    /// Runs a statement that cannot be part of a transaction.
    pub(crate) fn outside<T>(
        &self,
        run: impl FnOnce(&Connection) -> Result<T, VfsError>,
    ) -> Result<T, VfsError> {
        run(&self.lock()).map_err(|error| error.at(&self.path))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic in a transaction rolled it back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(path: &Path) -> Result<Connection, VfsError> {
    // Connections are behind a mutex of their own.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A commit is in the log when it returns, so a kill loses nothing. After a power failure the records are consistent
    // but may lack the latest changes.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // A checkpoint whenever the last connection closes would cost every command some 20 ms.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    schema::bring_up(&mut connection, path)?;
    Ok(connection)
}

impl Read<'_> {
    /// The only row, if there is one.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, VfsError> {
        Ok(self.connection.prepare_cached(sql)?.query_row(parameters, map).optional()?)
    }

    /// All rows.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, VfsError> {
        Ok(self.connection.prepare_cached(sql)?.query_map(parameters, map)?.collect::<Result<_, _>>()?)
    }

    /// A number that the query always has.
    pub(crate) fn count(&self, sql: &str, parameters: impl Params) -> Result<u64, VfsError> {
        let count = self.connection.prepare_cached(sql)?.query_row(parameters, |row| row.get::<_, i64>(0))?;
        Ok(count.max(0) as u64)
    }
}

impl Tx<'_> {
    /// Runs a statement and returns the number of rows that it changed.
    pub(crate) fn execute(&self, sql: &str, parameters: impl Params) -> rusqlite::Result<usize> {
        self.read.connection.prepare_cached(sql)?.execute(parameters)
    }

    /// The key of the row that was inserted last.
    pub(crate) fn last_id(&self) -> i64 {
        self.read.connection.last_insert_rowid()
    }
}

/// Turns an error of a column's conversion into one of SQLite's.
pub(crate) fn map_error(column: usize, reason: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, reason.into())
}
