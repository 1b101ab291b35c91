//! Locks between processes: `flock`, which the kernel releases when their holder dies.
//!
//! | lock | shared | exclusive |
//! |---|---|---|
//! | `commit` | creating a lease or a temporary pack; publishing packs | listing leases and leftovers; replacing packs |
//! | `gc` | ending a lease | a whole garbage collection or repair |
//! | `collector` | | the same; tells two of them from a lease that is just ending |

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::StoreError;

pub(crate) const COMMIT: &str = "locks/commit";
pub(crate) const GC: &str = "locks/gc";
const COLLECTOR: &str = "locks/collector";

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

/// Waits for a lock.
pub(crate) fn wait(root: &Path, name: &str, is_exclusive: bool) -> Result<Lock, StoreError> {
    let path = root.join(name);
    let file = open(&path)?;
    let how = if is_exclusive { FlockOperation::LockExclusive } else { FlockOperation::LockShared };
    rustix::io::retry_on_intr(|| flock(&file, how)).map_err(StoreError::os("lock", &path))?;
    Ok(Lock(file))
}

/// Takes a lock if it is free.
pub(crate) fn attempt(root: &Path, name: &str, is_exclusive: bool) -> Result<Option<Lock>, StoreError> {
    let path = root.join(name);
    let file = open(&path)?;
    let how = if is_exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    match flock(&file, how) {
        Ok(()) => Ok(Some(Lock(file))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(StoreError::os("lock", &path)(error)),
    }
}

/// The right to replace packs.
#[derive(Debug)]
#[expect(dead_code, reason = "dropping it releases the locks")]
pub(crate) struct Collector(Lock, Lock);

/// Takes the right to replace packs if nobody else has it.
pub(crate) fn collector(root: &Path) -> Result<Option<Collector>, StoreError> {
    match attempt(root, COLLECTOR, true)? {
        Some(only) => Ok(Some(Collector(only, wait(root, GC, true)?))),
        None => Ok(None),
    }
}

fn open(path: &Path) -> Result<File, StoreError> {
    let options =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    options.map_err(StoreError::io("open", path))
}

/// Whether nobody holds the lock of this file: its owner has ended.
pub(crate) fn is_abandoned(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared).is_ok()
}
