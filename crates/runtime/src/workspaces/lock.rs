//! The lock of a workspace: one operation at a time, across processes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_blocking::in_place;
use agentiso_core::WorkspaceId;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How often a lock that another operation holds is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// Locked until the last clone is dropped. The kernel releases it if the process dies.
#[derive(Clone, Debug)]
pub(crate) struct WorkspaceLock {
    _file: Arc<File>,
}

impl WorkspaceLock {
    /// Takes the lock; `None` if another operation holds it for longer than `patience`.
    pub async fn take(dir: &Path, id: WorkspaceId, patience: Duration) -> io::Result<Option<Self>> {
        let file = in_place(|| open(dir, id))?;
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

    /// Removes the lock file of a removed workspace. Ids are not reused, so no later lock is affected.
    #[expect(clippy::disallowed_methods, reason = "run `in_place`")]
    pub fn remove(self, dir: &Path, id: WorkspaceId) {
        // An empty file that stays does no harm, and is removed by the next sweep.
        let _ = in_place(|| fs::remove_file(path(dir, id)));
    }
}

#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
fn open(dir: &Path, id: WorkspaceId) -> io::Result<File> {
    fs::create_dir_all(dir)?;
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path(dir, id))
}

fn path(dir: &Path, id: WorkspaceId) -> std::path::PathBuf {
    dir.join(format!("{id}.lock"))
}
