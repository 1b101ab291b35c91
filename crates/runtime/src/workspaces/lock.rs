//! One command at a time on a workspace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_core::WorkspaceId;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Between two attempts to take a lock that another command holds.
const RETRY: Duration = Duration::from_millis(10);

/// Held while a command is at work on a workspace, by all its clones together. The kernel lets go of it when its holder
/// dies.
#[derive(Clone, Debug)]
pub(crate) struct WorkspaceLock {
    _file: Arc<File>,
}

impl WorkspaceLock {
    /// Takes the lock; `None` if another command kept it for all of `patience`.
    pub async fn take(dir: &Path, id: WorkspaceId, patience: Duration) -> io::Result<Option<Self>> {
        fs::create_dir_all(dir)?;
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path(dir, id))?;
        let deadline = Instant::now() + patience;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Self { _file: Arc::new(file) })),
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => tokio::time::sleep(RETRY).await,
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes the lock of a workspace that is gone. Ids are never used again, so nobody waits for it in vain.
    pub fn remove(self, dir: &Path, id: WorkspaceId) {
        // A name that stays takes no room worth an error.
        let _ = fs::remove_file(path(dir, id));
    }
}

fn path(dir: &Path, id: WorkspaceId) -> std::path::PathBuf {
    dir.join(format!("{id}.lock"))
}
