//! The write-ahead log, and when it is copied into the database file.
//!
//! Copying waits for the device, so no commit does it: once the log has grown past a limit, a thread of its own does.
//! Readers and writers go on meanwhile. A log that has been copied whole, and that no reader needs, is started over by
//! the next write. A kill in the middle loses nothing: the log is kept until the copy is on the device.

use std::cell::Cell;
use std::ffi::c_int;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::hooks::Wal;

use crate::MetaError;
use crate::connections::connect_bare;

/// How many pages the log has when copying begins: 4 MiB, the default of SQLite.
const FULL: c_int = 1000;

/// How many more pages it has when copying is tried again, if a reader kept it from being started over.
const AGAIN: c_int = 250;

/// How many bytes of log may be left when the state is closed. Whoever opens it next reads them, 0.5 ms a MiB.
const LEFT: u64 = 2 << 20;

thread_local! {
    /// How many pages the log had after the last commit on this thread.
    static LENGTH: Cell<c_int> = const { Cell::new(0) };
}

/// Called by SQLite after every commit that changed something, on the thread that committed.
pub(crate) fn note_length(_: &Wal, pages: c_int) -> rusqlite::Result<()> {
    LENGTH.set(pages);
    Ok(())
}

#[derive(Debug)]
pub(crate) struct Log {
    database: PathBuf,
    /// How many pages it had after the last commit of this process.
    length: AtomicI32,
    /// How many it had when copying was last tried, if it has not been started over since.
    tried: AtomicI32,
    copying: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    pub fn new(database: &Path) -> Self {
        // The first write does not know what other processes left: it counts as one that may wait.
        let length = AtomicI32::new(FULL);
        Self { database: database.to_owned(), length, tried: AtomicI32::new(0), copying: Mutex::new(None) }
    }

    /// Whether the next write may start the log over, which waits for the device. It does once all has been copied.
    pub fn may_start_over(&self) -> bool {
        self.length.load(Ordering::Relaxed) >= FULL && !self.is_copying()
    }

    fn is_copying(&self) -> bool {
        let copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        copying.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// To be called after each commit, by its thread, before the next write begins.
    pub fn committed(&self) {
        let length = LENGTH.take();
        if length == 0 {
            return;
        }
        self.length.store(length, Ordering::Relaxed);
        if length < FULL {
            self.tried.store(0, Ordering::Relaxed);
        } else if length >= self.tried.load(Ordering::Relaxed) + AGAIN {
            self.tried.store(length, Ordering::Relaxed);
            self.start_copying();
        }
    }

    fn start_copying(&self) {
        if self.is_copying() {
            return;
        }
        let database = self.database.clone();
        let copy = move || {
            if let Err(error) = checkpoint(&database, "PASSIVE", Duration::ZERO) {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "could not empty the log of the state"
                );
            }
        };
        // Without a thread, the log grows until the next try.
        let thread = thread::Builder::new().name("state-log".to_owned()).spawn(copy).ok();
        *self.copying.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }

    /// Empties the log if it has grown long, when nobody waits for an answer any more.
    #[expect(clippy::disallowed_methods, reason = "the daemon is about to exit")]
    pub fn close(&self) {
        let copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = copying {
            let _ = thread.join();
        }
        let mut log = self.database.clone().into_os_string();
        log.push("-wal");
        if fs::metadata(log).is_ok_and(|log| log.len() > LEFT) {
            // While another process reads, it cannot be done: the next to close will try again.
            let _ = checkpoint(&self.database, "TRUNCATE", Duration::ZERO);
        }
    }
}

fn checkpoint(database: &Path, mode: &str, patience: Duration) -> Result<(), MetaError> {
    let connection = connect_bare(database)?;
    connection.busy_timeout(patience)?;
    Ok(connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::Connections;

    #[test]
    fn a_full_log_is_copied_by_another_thread_and_started_over_by_the_next_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let (connections, log) = (Connections::open(&path).unwrap(), Log::new(&path));
        let write = || {
            let fill =
                "CREATE TABLE IF NOT EXISTS filler (x); INSERT INTO filler VALUES (randomblob(100000))";
            connections.write(|connection| Ok(connection.execute_batch(fill)?)).unwrap();
            log.committed();
        };
        write();
        assert!(!log.may_start_over());
        let before = fs::metadata(&path).unwrap().len();
        let copying = || log.copying.lock().unwrap().take();
        let thread = (0..1000).find_map(|_| {
            write();
            copying()
        });
        thread.unwrap().join().unwrap();
        assert!(log.may_start_over());
        let copied = fs::metadata(&path).unwrap().len() - before;
        assert!(copied > 2 << 20, "{copied}");
        write();
        assert!(log.length.load(Ordering::Relaxed) < FULL);
        assert!(!log.may_start_over());
        assert!(copying().is_none());
    }
}
