//! The database: synchronous and asynchronous reads and writes.

use std::fmt::{self, Display};
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use agentiso_blocking::{in_place, off_thread};
use rusqlite::ffi::{SQLITE_ABORT, SQLITE_CONSTRAINT_FOREIGNKEY, SQLITE_CONSTRAINT_TRIGGER, SQLITE_IOERR};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Row, Transaction, TransactionBehavior};
use tokio::sync::Semaphore;

use crate::connections::{Connections, PATIENCE};
use crate::log::Log;
use crate::writer::Writer;
use crate::{MetaError, Owner};

/// How long to spin for a write in progress before moving other tasks to another thread, which takes longer than most
/// writes.
const SHORT: Duration = Duration::from_micros(30);

/// The state of one data directory.
///
/// Reads run concurrently with each other and with a write. Writes of this process are serialised.
///
/// [`read`](Self::read) and [`write`](Self::write) may be called from async tasks: they take a few microseconds, and
/// anything that may take longer (waiting for the lock, another process or the device) runs [`in_place`]. The closure
/// must be short. Use [`read_async`](Self::read_async) for queries whose time depends on the size of the state.
#[derive(Debug)]
pub struct Meta {
    shared: Arc<Shared>,
    /// Started by the first write that needs it; `None` if the thread could not be started.
    writer: OnceLock<Option<Writer>>,
    /// Limits the number of concurrent reads on separate threads.
    reads: Semaphore,
}

/// State shared with the threads.
#[derive(Debug)]
struct Shared {
    owner: Owner,
    gate: OnceLock<Gate>,
    connections: Connections,
    log: Log,
    /// Held while writing.
    turn: Mutex<()>,
}

/// Called before every transaction; if it returns false, the transaction fails as if the file were unreadable. For
/// tests of an unreadable database.
#[derive(Clone)]
pub struct Gate(Arc<dyn Fn() -> bool + Send + Sync>);

impl Gate {
    /// Creates a gate that calls `admits`.
    pub fn new(admits: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(admits))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Gate")
    }
}

/// A consistent view of the state.
#[derive(Debug)]
pub struct Read<'a> {
    pub(crate) connection: &'a Connection,
}

/// A write transaction. Supports all queries of [`Read`], which see its own changes.
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
    /// Opens the database. Creates (readable only by its user) or migrates it if necessary. Blocks.
    pub fn open(path: &Path) -> Result<Self, MetaError> {
        let owner = Owner::current().map_err(MetaError::Owner)?;
        let connections = Connections::open(path).map_err(|error| error.at(path))?;
        let reads = Semaphore::new(connections.most_reads());
        let (gate, log, turn) = (OnceLock::new(), Log::new(path), Mutex::new(()));
        let shared = Arc::new(Shared { owner, gate, connections, log, turn });
        Ok(Self { shared, writer: OnceLock::new(), reads })
    }

    /// Installs a gate for all later transactions. It cannot be replaced.
    #[must_use]
    pub fn with_gate(self, gate: Gate) -> Self {
        self.shared.gate.get_or_init(|| gate);
        self
    }

    /// Path of the database file.
    pub fn path(&self) -> &Path {
        self.shared.connections.path()
    }

    /// Runs a read transaction. It sees all writes that returned before it began, and none that commit meanwhile.
    ///
    /// `ask` must not call `read` or `write`.
    pub fn read<T>(&self, ask: impl FnOnce(&Read<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        self.shared.read(ask)
    }

    /// Runs a write transaction. If `change` fails, panics or is killed, nothing has changed; once this returns,
    /// everything has been committed.
    ///
    /// Writes of all processes wait for each other, so `change` must not be slow. It must not call `read` or `write`;
    /// use the queries of its [`Tx`] instead.
    pub fn write<T>(&self, change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        self.shared.write(change)
    }

    /// [`read`](Self::read) on a separate thread, for queries with long results.
    pub async fn read_async<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Read<'_>) -> Result<T, MetaError> + Send + 'static,
    ) -> Result<T, MetaError> {
        // The semaphore is never closed, so this waits and cannot fail.
        let _permit = self.reads.acquire().await;
        let shared = Arc::clone(&self.shared);
        off_thread(move || shared.read(ask)).await
    }

    /// [`write`](Self::write) on the thread that runs the writes of all async callers in order of arrival.
    ///
    /// If the future is dropped before the write has begun, it does not happen; afterwards it completes.
    pub async fn write_async<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError> + Send + 'static,
    ) -> Result<T, MetaError> {
        let shared = Arc::clone(&self.shared);
        let change = move || shared.write(change);
        match self.writer.get_or_init(Writer::start) {
            Some(writer) => writer.run(change).await.unwrap_or_else(|| {
                let error = rusqlite::ffi::Error::new(SQLITE_ABORT);
                Err(rusqlite::Error::SqliteFailure(error, None).into())
            }),
            None => off_thread(change).await,
        }
    }
}

impl Drop for Meta {
    fn drop(&mut self) {
        // Queued writes run first.
        drop(self.writer.take());
        self.shared.log.close();
    }
}

impl Shared {
    fn read<T>(&self, ask: impl FnOnce(&Read<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let read = |connection: &Connection| {
            self.pass_gate()?;
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
            ask(&Read { connection: &transaction })
        };
        self.connections.read(read).map_err(|error| error.at(self.connections.path()))
    }

    fn write<T>(&self, change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let _turn = self.take_turn();
        let run = || {
            self.connections.write(|connection| {
                self.pass_gate()?;
                let transaction = begin(connection)?;
                let answer = change(&Tx { read: Read { connection: &transaction }, owner: self.owner })?;
                transaction.commit()?;
                self.log.committed();
                Ok(answer)
            })
        };
        let done = if self.log.may_start_over() { in_place(run) } else { run() };
        done.map_err(|error| error.at(self.connections.path()))
    }

    /// Waits for the write in progress, if any.
    fn take_turn(&self) -> MutexGuard<'_, ()> {
        let began = Instant::now();
        loop {
            match self.turn.try_lock() {
                Ok(turn) => return turn,
                // A panic in a transaction rolled it back, so the next one may proceed.
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if began.elapsed() < SHORT => std::hint::spin_loop(),
                Err(TryLockError::WouldBlock) => break,
            }
        }
        in_place(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn pass_gate(&self) -> Result<(), MetaError> {
        match self.gate.get() {
            Some(Gate(admits)) if !admits() => {
                let error = rusqlite::ffi::Error::new(SQLITE_IOERR);
                Err(rusqlite::Error::SqliteFailure(error, Some("made to fail".to_owned())).into())
            }
            _ => Ok(()),
        }
    }
}

/// Begins a write transaction, after those of other processes.
fn begin(connection: &Connection) -> Result<Transaction<'_>, MetaError> {
    let begin = || Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    connection.busy_timeout(Duration::ZERO)?;
    let begun = begin();
    connection.busy_timeout(PATIENCE)?;
    match begun {
        Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::DatabaseBusy => {
            Ok(in_place(begin)?)
        }
        begun => Ok(begun?),
    }
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
    /// Executes a statement and returns the number of affected rows.
    pub(crate) fn execute(&self, sql: &str, parameters: impl Params) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(parameters)
    }

    /// Executes a statement that must affect exactly one row.
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

    /// Deletes one row, which must exist and must not be referenced.
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
            // SQLite implements RESTRICT with an internal trigger; other references are a plain constraint violation.
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
