//! The database, and the two ways to use it.

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

/// How long a write in progress is waited for before other tasks are moved to another thread, which takes longer than
/// most writes do.
const SHORT: Duration = Duration::from_micros(30);

/// The state of one data directory.
///
/// Reads run at the same time as each other and as a write. Writes of this process take turns.
///
/// [`read`](Self::read) and [`write`](Self::write) may be called from async tasks: they take a few microseconds, and
/// whatever may take longer (waiting for a turn, for another process or for the device) is done in place, in the sense
/// of [`in_place`]. Only what is asked or changed must be short. Questions that take time in proportion to the state go
/// to [`read_async`](Self::read_async).
#[derive(Debug)]
pub struct Meta {
    shared: Arc<Shared>,
    /// Started by the first change that needs it; `None` if it could not be.
    writer: OnceLock<Option<Writer>>,
    /// How many more reads may go to a thread of their own.
    reads: Semaphore,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    owner: Owner,
    gate: OnceLock<Gate>,
    connections: Connections,
    log: Log,
    /// Held by the one who writes.
    turn: Mutex<()>,
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
    /// Opens the database, which is created (readable by its user alone) or brought up to date if need be. Blocks.
    pub fn open(path: &Path) -> Result<Self, MetaError> {
        let owner = Owner::current().map_err(MetaError::Owner)?;
        let connections = Connections::open(path).map_err(|error| error.at(path))?;
        let reads = Semaphore::new(connections.most_reads());
        let (gate, log, turn) = (OnceLock::new(), Log::new(path), Mutex::new(()));
        let shared = Arc::new(Shared { owner, gate, connections, log, turn });
        Ok(Self { shared, writer: OnceLock::new(), reads })
    }

    /// Asks a gate before every transaction from now on. Once set, it cannot be replaced.
    #[must_use]
    pub fn with_gate(self, gate: Gate) -> Self {
        self.shared.gate.get_or_init(|| gate);
        self
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        self.shared.connections.path()
    }

    /// Asks questions of one moment of the state. Changes made meanwhile do not show; those answered before do.
    ///
    /// `ask` must not call `read` or `write` itself.
    pub fn read<T>(&self, ask: impl FnOnce(&Read<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        self.shared.read(ask)
    }

    /// Changes the state in one transaction: if `change` fails, panics or is killed, nothing of it has happened;
    /// once this returns, all of it has and stays.
    ///
    /// Changes of all processes wait for each other here, so `change` does nothing slow; and it must not call
    /// `read` or `write` itself: what it needs to know, it asks its [`Tx`].
    pub fn write<T>(&self, change: impl FnOnce(&Tx<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        self.shared.write(change)
    }

    /// [`read`](Self::read) on a thread of its own, for questions whose answers may be long.
    pub async fn read_async<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Read<'_>) -> Result<T, MetaError> + Send + 'static,
    ) -> Result<T, MetaError> {
        // It is never closed: this waits and cannot fail.
        let _permit = self.reads.acquire().await;
        let shared = Arc::clone(&self.shared);
        off_thread(move || shared.read(ask)).await
    }

    /// [`write`](Self::write) on the thread that runs the changes of all async callers in the order they come.
    ///
    /// If the future is dropped before the change has begun, it does not happen; afterwards, it happens whole.
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
        // Changes that are queued happen first.
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

    /// Waits for the write in progress, if there is one.
    fn take_turn(&self) -> MutexGuard<'_, ()> {
        let began = Instant::now();
        loop {
            match self.turn.try_lock() {
                Ok(turn) => return turn,
                // A panic in a transaction has rolled it back: the next may follow.
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

/// Begins a transaction that may change the state, after those of other processes.
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
