//! The database, and the two ways to use it.

use std::fmt::{self, Display};
use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::ffi::{SQLITE_CONSTRAINT_FOREIGNKEY, SQLITE_CONSTRAINT_TRIGGER, SQLITE_IOERR};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row, TransactionBehavior};

use crate::{MetaError, Owner, schema};

/// How long a change waits for those of other processes. Each takes a millisecond or so.
const PATIENCE: Duration = Duration::from_secs(5);

/// How large the log may grow before it is emptied. Whoever opens the state first reads it through, 0.5 ms a MiB.
const LOG_LIMIT: u64 = 2 << 20;

/// The state of one data directory.
#[derive(Debug)]
pub struct Meta {
    path: PathBuf,
    owner: Owner,
    gate: Option<Gate>,
    connection: Mutex<Connection>,
}

/// Asked before every transaction, which fails as if the file could not be read if it says no. For tests of what an
/// unreadable database does.
#[derive(Clone)]
pub struct Gate(Arc<dyn Fn() -> bool + Send + Sync>);

impl Gate {
    /// A gate that asks `admits`.
    pub fn new(admits: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(admits))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Gate")
    }
}

/// A view of the state at one moment.
#[derive(Debug)]
pub struct Read<'a> {
    pub(crate) connection: &'a Connection,
}

/// Changes that happen together or not at all. Everything [`Read`] answers, it answers too, as changed so far.
#[derive(Debug)]
pub struct Tx<'a> {
    read: Read<'a>,
    pub(crate) owner: Owner,
}

impl<'a> Deref for Tx<'a> {
    type Target = Read<'a>;

    fn deref(&self) -> &Read<'a> {
        &self.read
    }
}

impl Meta {
    /// Opens the database, which is made (for its user's eyes only) or brought up to date if need be.
    pub fn open(path: &Path) -> Result<Self, MetaError> {
        let owner = Owner::current().map_err(MetaError::Owner)?;
        create(path).map_err(|source| MetaError::Create { path: path.to_owned(), source })?;
        let connection = connect(path).map_err(|error| error.at(path))?;
        Ok(Self { path: path.to_owned(), owner, gate: None, connection: Mutex::new(connection) })
    }

    /// Asks a gate before every transaction from now on.
    #[must_use]
    pub fn with_gate(mut self, gate: Gate) -> Self {
        self.gate = Some(gate);
        self
    }

    fn pass_gate(&self) -> Result<(), MetaError> {
        match &self.gate {
            Some(Gate(admits)) if !admits() => {
                let error = rusqlite::ffi::Error::new(SQLITE_IOERR);
                Err(rusqlite::Error::SqliteFailure(error, Some("made to fail".to_owned())).into())
            }
            _ => Ok(()),
        }
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks questions of one moment of the state. Other processes may change it meanwhile: it does not show.
    ///
    /// `ask` must not call `read` or `write` itself.
    pub fn read<T>(&self, ask: impl FnOnce(&Read<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let run = |connection: &mut Connection| {
            self.pass_gate()?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
            ask(&Read { connection: &transaction })
        };
        run(&mut self.lock()).map_err(|error| error.at(&self.path))
    }

    /// Changes the state in one transaction: if `change` fails, panics or is killed, nothing of it has happened;
    /// once this returns, all of it has and stays.
    ///
    /// Changes of all processes wait for each other here, so `change` does nothing slow; and it must not call
    /// `read` or `write` itself: what it needs to know, it asks its [`Tx`].
    pub fn write<T>(&self, change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let run = |connection: &mut Connection| {
            self.pass_gate()?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let answer = change(&Tx { read: Read { connection: &transaction }, owner: self.owner })?;
            transaction.commit()?;
            Ok(answer)
        };
        run(&mut self.lock()).map_err(|error: MetaError| error.at(&self.path))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic in a transaction has rolled it back: the connection is as good as before.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Meta {
    /// Empties the log if it has grown long: here, where nobody waits for an answer.
    fn drop(&mut self) {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        if fs::metadata(log).is_ok_and(|log| log.len() > LOG_LIMIT) {
            let connection = self.lock();
            // While others read, it cannot be done: the next to close will try again.
            let _ = connection
                .busy_timeout(Duration::ZERO)
                .and_then(|()| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
        }
    }
}

/// Makes the file if there is none. SQLite gives its companions the same mode.
fn create(path: &Path) -> io::Result<()> {
    // An existing file is not opened: closing it again would drop the locks of our other connections to it.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

fn connect(path: &Path) -> Result<Connection, MetaError> {
    // Our mutex is the only one needed.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A commit is in the log when it returns: a kill of any process, ours too, loses none. What NORMAL leaves out
    // is a flush to the device, 4 ms against 20 us: after a power cut the state is sound, and may be that of some
    // changes ago.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // Nor is the log emptied whenever the last connection closes, which would cost every command 20 ms: see `drop`.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    schema::bring_up(&mut connection, path)?;
    Ok(connection)
}

impl Read<'_> {
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, MetaError> {
        Ok(self.connection.prepare_cached(sql)?.query_row(parameters, map).optional()?)
    }

    pub(crate) fn all<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, MetaError> {
        Ok(self.connection.prepare_cached(sql)?.query_map(parameters, map)?.collect::<Result<_, _>>()?)
    }
}

impl Tx<'_> {
    /// Runs a change and returns how many rows it met.
    pub(crate) fn execute(&self, sql: &str, parameters: impl Params) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(parameters)
    }

    /// Runs a change of one row, which must be there.
    pub(crate) fn change_one(
        &self,
        what: &'static str,
        id: impl Display,
        sql: &str,
        parameters: impl Params,
    ) -> Result<(), MetaError> {
        match self.execute(sql, parameters)? {
            0 => Err(MetaError::missing(what, id)),
            _ => Ok(()),
        }
    }

    /// Removes one row, which must be there and which nothing may refer to.
    pub(crate) fn remove_unneeded(
        &self,
        what: &'static str,
        id: impl Display,
        sql: &str,
        parameters: impl Params,
    ) -> Result<(), MetaError> {
        match self.execute(sql, parameters) {
            Ok(0) => Err(MetaError::missing(what, id)),
            Ok(_) => Ok(()),
            // RESTRICT is carried out by a trigger of SQLite's own; other references are a plain violation.
            Err(rusqlite::Error::SqliteFailure(error, _))
                if matches!(
                    error.extended_code,
                    SQLITE_CONSTRAINT_FOREIGNKEY | SQLITE_CONSTRAINT_TRIGGER
                ) =>
            {
                Err(MetaError::Needed { what, id: id.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }
}
