//! Temporary files of processes that have ended.

use std::fs::{self, File};
use std::io;

use crate::error::StoreError;
use crate::locks;
use crate::store::Store;

/// Removes them; returns number and size. The caller holds the commit lock exclusively, so nobody is between creating such
/// a file and locking it.
pub(super) fn remove(store: &Store) -> Result<(u64, u64), StoreError> {
    let directory = store.root().join("tmp");
    let (mut count, mut bytes) = (0, 0);
    for entry in fs::read_dir(&directory).map_err(StoreError::io("read", &directory))? {
        let path = entry.map_err(StoreError::io("read", &directory))?.path();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(StoreError::Io { what: "open", path, source }),
        };
        if locks::is_abandoned(&file) {
            bytes += file.metadata().map_or(0, |metadata| metadata.len());
            fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
            count += 1;
        }
    }
    Ok((count, bytes))
}
