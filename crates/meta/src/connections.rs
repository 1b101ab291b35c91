//! The connections of this process to the database.
//!
//! All are alike and lent out one transaction at a time, the one returned last first, because its cache is the most
//! likely to be valid. There is one for each concurrent read, up to a limit, and one for the write in progress. They are
//! opened when first needed: a command that does one thing at a time opens one.

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

/// How long a change waits for those of other processes. Each takes a millisecond or so.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The connections, lent and idle.
#[derive(Debug)]
pub(crate) struct Connections {
    path: PathBuf,
    /// How many reads may run at once.
    most_reads: usize,
    state: Mutex<State>,
    /// Signalled whenever a connection is returned or a read ends.
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    idle: Vec<Connection>,
    /// How many connections exist, lent ones included.
    open: usize,
    /// How many reads are running.
    reads: usize,
    /// How many callers wait for `freed`.
    waiting: usize,
}

impl Connections {
    /// Opens the first connection, creating the database or bringing it up to date if need be.
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

    /// Runs a read with a connection of its own, once fewer than the limit are running.
    pub fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let mut state = self.lock();
        if state.reads >= self.most_reads {
            drop(state);
            state = in_place(|| self.wait_while(|state| state.reads >= self.most_reads));
        }
        state.reads += 1;
        self.lend(state, read, |state| state.reads -= 1)
    }

    /// Runs a write. The caller makes sure that only one runs at a time.
    pub fn write<T>(&self, write: impl FnOnce(&Connection) -> Result<T, MetaError>) -> Result<T, MetaError> {
        self.lend(self.lock(), write, |_| ())
    }

    /// Lends out a connection, and takes it back whatever becomes of the work.
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

    /// Opens a connection that is counted already. If that fails, for want of file descriptors for example, waits for
    /// one of the others to be returned.
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

/// Creates the file if it does not exist. SQLite gives its companions the same mode.
#[expect(clippy::disallowed_methods, reason = "part of opening the database, which blocks")]
fn create(path: &Path) -> io::Result<()> {
    // An existing file is not opened: closing it again would drop the locks of our other connections to it.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

fn connect(path: &Path) -> Result<Connection, MetaError> {
    let mut connection = connect_bare(path)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A commit is in the log when it returns: a kill of any process, ours too, loses none. What NORMAL leaves out
    // is a flush to the device, 4 ms against 20 us: after a power cut the state is sound, and may be that of some
    // changes ago.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.set_prepared_statement_cache_capacity(64);
    schema::bring_up(&mut connection, path)?;
    // Replaces SQLite's own hook, which would empty the log within a commit.
    connection.wal_hook(Some(note_length));
    Ok(connection)
}

/// A connection without what transactions need.
pub(crate) fn connect_bare(path: &Path) -> Result<Connection, MetaError> {
    // A connection is lent to one thread at a time and needs no lock of its own.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // Emptying the log whenever the last connection closes would cost every command 20 ms.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}
