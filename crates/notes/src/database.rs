//! Connections to one SQLite file, reused between calls and threads.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::NotesError;

/// How long SQLite waits for another process.
const BUSY: Duration = Duration::from_secs(30);
/// Connections that are kept for later.
const MAX_IDLE: usize = 4;

/// A SQLite file.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    /// Whether a commit waits until it is on disk.
    is_durable: bool,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    inode: u64,
}

impl Database {
    pub(crate) fn new(path: PathBuf, is_durable: bool) -> Self {
        Self { path, is_durable, idle: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a function with a connection. Its errors get the path of the file.
    pub(crate) fn with<T>(
        &self,
        run: impl FnOnce(&mut Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, NotesError> {
        self.with_any(|connection| run(connection).map_err(NotesError::database(&self.path)))
    }

    /// The same for functions that fail in other ways, too.
    pub(crate) fn with_any<T>(
        &self,
        run: impl FnOnce(&mut Connection) -> Result<T, NotesError>,
    ) -> Result<T, NotesError> {
        let mut idle = self.take()?;
        let result = run(&mut idle.connection);
        // A connection that failed may be in any state.
        if result.is_ok() {
            let mut kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < MAX_IDLE {
                kept.push(idle);
            }
        }
        result
    }

    fn take(&self) -> Result<Idle, NotesError> {
        let inode = std::fs::metadata(&self.path).map(|meta| meta.ino()).ok();
        let mut kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Another process may have replaced a damaged file.
        kept.retain(|idle| Some(idle.inode) == inode);
        match kept.pop() {
            Some(idle) => Ok(idle),
            None => {
                drop(kept);
                self.open()
            }
        }
    }

    fn open(&self) -> Result<Idle, NotesError> {
        let failed = NotesError::database(&self.path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(&failed)?;
        let prepare = || {
            connection.busy_timeout(BUSY)?;
            connection.pragma_update(None, "trusted_schema", false)?;
            connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", if self.is_durable { "FULL" } else { "NORMAL" })?;
            connection.pragma_update(None, "cache_size", -16_000)?;
            connection.set_prepared_statement_cache_capacity(64);
            Ok(())
        };
        prepare().map_err(&failed)?;
        let inode = std::fs::metadata(&self.path).map_err(NotesError::io("read", &self.path))?.ino();
        Ok(Idle { connection, inode })
    }

    /// Removes the file; the caller holds the write lock.
    pub(crate) fn remove(&self) -> Result<(), NotesError> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for suffix in ["-wal", "-shm", ""] {
            let mut path = self.path.clone().into_os_string();
            path.push(suffix);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(NotesError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
