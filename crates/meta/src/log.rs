//! Checkpoints of the write-ahead log (WAL).
//!
//! A checkpoint waits for the device, so it never runs within a commit: once the WAL exceeds a limit, a separate thread
//! copies it while readers and writers continue. The next write after a complete checkpoint, if no reader still needs
//! the WAL, restarts it from the beginning. A kill during a checkpoint loses nothing: the WAL is kept until the copy is
//! on the device.

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

/// WAL length in pages at which a checkpoint begins: 4 MiB, SQLite's default.
const FULL: c_int = 1000;

/// Growth in pages after which a checkpoint is retried, if a reader prevented the WAL from restarting.
const AGAIN: c_int = 250;

/// Bytes of WAL that may remain when the database is closed. The next process to open it reads them, at 0.5 ms per MiB.
const LEFT: u64 = 2 << 20;

thread_local! {
    /// WAL length in pages after the last commit on this thread.
    static LENGTH: Cell<c_int> = const { Cell::new(0) };
}

/// Called by SQLite after every commit that changed something, on the committing thread.
pub(crate) fn note_length(_: &Wal, pages: c_int) -> rusqlite::Result<()> {
    LENGTH.set(pages);
    Ok(())
}

#[derive(Debug)]
pub(crate) struct Log {
    database: PathBuf,
    /// WAL length in pages after the last commit of this process.
    length: AtomicI32,
    /// WAL length in pages at the last attempt, if it has not restarted since.
    tried: AtomicI32,
    copying: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    pub fn new(database: &Path) -> Self {
        // The first write does not know what other processes left, so assume that it may have to wait.
        let length = AtomicI32::new(FULL);
        Self { database: database.to_owned(), length, tried: AtomicI32::new(0), copying: Mutex::new(None) }
    }

    /// Whether the next write may restart the WAL, which waits for the device.
    pub fn may_start_over(&self) -> bool {
        self.length.load(Ordering::Relaxed) >= FULL && !self.is_copying()
    }

    fn is_copying(&self) -> bool {
        let copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        copying.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Must be called after each commit, on its thread, before the next write begins.
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
                    "could not checkpoint the write-ahead log of the database"
                );
            }
        };
        // If the thread cannot start, the WAL grows until the next attempt.
        let thread = thread::Builder::new().name("state-log".to_owned()).spawn(copy).ok();
        *self.copying.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }

    /// Truncates a long WAL when the database is closed.
    #[expect(clippy::disallowed_methods, reason = "the daemon is about to exit")]
    pub fn close(&self) {
        let copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = copying {
            let _ = thread.join();
        }
        let mut log = self.database.clone().into_os_string();
        log.push("-wal");
        if fs::metadata(log).is_ok_and(|log| log.len() > LEFT) {
            // Fails while another process reads; the next one to close tries again.
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
    fn a_full_wal_is_checkpointed_by_another_thread_and_restarted_by_the_next_write() {
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
