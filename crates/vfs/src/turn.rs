//! Fairness between writers of one vault.
//!
//! A change is made without a lock and stored if nobody else was faster. Storing takes the vault's lock shared, for a
//! moment. A writer that lost several times takes it exclusively for its whole next attempt, so that it cannot lose again.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::VfsError;
use crate::name::VaultId;

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "closing the file releases the lock")] File);

pub(crate) fn take(directory: &Path, vault: VaultId, is_exclusive: bool) -> Result<Turn, VfsError> {
    let path = directory.join("locks").join(vault.to_string());
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(VfsError::io("open", &path))?;
    let locked = if is_exclusive { file.lock() } else { file.lock_shared() };
    locked.map_err(VfsError::io("lock", &path))?;
    Ok(Turn(file))
}
