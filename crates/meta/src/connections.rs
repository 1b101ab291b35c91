//! The pool of SQLite connections of this process.
//!
//! All connections are alike. Each is lent for one transaction at a time, the most recently returned first, because its
//! cache is the most likely to be valid. There is one for each concurrent read, up to a limit, and one for the write in
//! progress. They are opened when first needed: a command that does one thing at a time opens one.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use agentiso_blocking::in_place;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::log::note_length;
use crate::{MetaError, schema};

/// How long a write waits for writes of other processes (SQLite's busy timeout). Each takes about a millisecond.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The connections, lent and idle.
#[derive(Debug)]
pub(crate) struct Connections {
    path: PathBuf,
    /// Maximum number of concurrent reads.
    most_reads: usize,
    state: Mutex<State>,
    /// Signalled whenever a connection is returned or a read ends.
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    idle: Vec<Connection>,
    /// Number of connections that exist, including lent ones.
    open: usize,
    /// Number of running reads.
    reads: usize,
    /// Number of callers that wait for `freed`.
    waiting: usize,
}

impl Connections {
    /// Opens the first connection. Creates or migrates the database if necessary.
    pub fn open(path: &Path) -> Result<Self, MetaError> {
        create(path).map_err(|source| MetaError::Create { path: path.to_owned(), source })?;
        let state = State { idle: vec![connect(path)?], open: 1, reads: 0, waiting: 0 };
        // More reads than cores help only while some of them wait for the disk.
        let most_reads = thread::available_parallelism().map_or(4, |cores| cores.get().clamp(4, 16));
        Ok(Self { path: path.to_owned(), most_reads, state: Mutex::new(state), freed: Condvar::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn most_reads(&self) -> usize {
        self.most_reads
    }

    /// Runs a read on its own connection, as soon as fewer than the limit are running.
    pub fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let mut state = self.lock();
        if state.reads >= self.most_reads {
            drop(state);
            state = in_place(|| self.wait_while(|state| state.reads >= self.most_reads));
        }
        state.reads += 1;
        self.lend(state, read, |state| state.reads -= 1)
    }

    /// Runs a write. The caller ensures that only one runs at a time.
    pub fn write<T>(&self, write: impl FnOnce(&Connection) -> Result<T, MetaError>) -> Result<T, MetaError> {
        self.lend(self.lock(), write, |_| ())
    }

    /// Lends a connection and takes it back, even after a panic.
    fn lend<T>(
        &self,
        mut state: MutexGuard<'_, State>,
        work: impl FnOnce(&Connection) -> Result<T, MetaError>,
        release: impl FnOnce(&mut State),
    ) -> Result<T, MetaError> {
        let idle = state.idle.pop();
        state.open += usize::from(idle.is_none());
        drop(state);
        let lent = match idle {
            Some(connection) => Ok(connection),
            None => in_place(|| self.open_another()),
        };
        let (lent, done) = match lent {
            Ok(connection) => {
                let done = catch_unwind(AssertUnwindSafe(|| work(&connection)));
                (Some(connection), done)
            }
            Err(error) => (None, Ok(Err(error))),
        };
        let mut state = self.lock();
        release(&mut state);
        match lent {
            Some(connection) if connection.is_autocommit() => state.idle.push(connection),
            // It could not roll back, and is closed.
            Some(_) => state.open -= 1,
            None => {}
        }
        self.tell(state);
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Opens a connection that has already been counted. On failure, for example for lack of file descriptors, waits
    /// for another one to be returned.
    fn open_another(&self) -> Result<Connection, MetaError> {
        let error = match connect(&self.path) {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        let mut state = self.lock();
        state.open -= 1;
        self.tell(state);
        self.wait_while(|state| state.idle.is_empty() && state.open > 0).idle.pop().ok_or(error)
    }

    /// Blocks until the condition no longer holds.
    fn wait_while(&self, condition: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.waiting += 1;
        while condition(&state) {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state
    }

    /// Wakes those who wait for a change of the state. Each looks again for itself.
    fn tell(&self, state: MutexGuard<'_, State>) {
        let anyone = state.waiting > 0;
        drop(state);
        if anyone {
            self.freed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the file if it does not exist. SQLite gives its WAL and index files the same mode.
#[expect(clippy::disallowed_methods, reason = "part of opening the database, which blocks")]
fn create(path: &Path) -> io::Result<()> {
    // Do not open an existing file: closing it would release the POSIX locks of our other connections to it.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

fn connect(path: &Path) -> Result<Connection, MetaError> {
    let mut connection = connect_bare(path)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A commit is in the WAL when it returns, so killing any process loses nothing. NORMAL omits the flush to the
    // device, 4 ms against 20 us: after a power failure the state is consistent, but may lack the latest changes.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.set_prepared_statement_cache_capacity(64);
    schema::bring_up(&mut connection, path)?;
    // Replaces SQLite's own hook, which would checkpoint within a commit.
    connection.wal_hook(Some(note_length));
    Ok(connection)
}

/// Opens a connection without the settings for transactions.
pub(crate) fn connect_bare(path: &Path) -> Result<Connection, MetaError> {
    // A connection is lent to one thread at a time and needs no mutex.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // A checkpoint whenever the last connection closes would cost every command 20 ms.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}
