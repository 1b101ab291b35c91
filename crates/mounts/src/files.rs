//! Small operations on files that several parts need.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::MountError;

/// Records are small; anything larger is not ours.
const MAX_RECORD: u64 = 64 << 10;

/// 32 random hexadecimal digits.
pub(crate) fn random_name() -> Result<String, MountError> {
    let mut bytes = [0_u8; 16];
    let filled = rustix::io::retry_on_intr(|| {
        rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
    });
    filled.map_err(MountError::os("read", "the random number generator"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Creates a directory that only its owner may enter; succeeds if it exists.
pub(crate) fn private_directory(path: &Path) -> Result<(), MountError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(MountError::io("create", path))
}

/// Creates a directory that must not exist.
pub(crate) fn new_directory(path: &Path, mode: u32) -> Result<(), MountError> {
    fs::DirBuilder::new().mode(mode).create(path).map_err(MountError::io("create", path))
}

/// Opens a lock file, creating it if necessary.
pub(crate) fn lock_file(path: &Path) -> Result<File, MountError> {
    let options =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    options.map_err(MountError::io("open", path))
}

/// Takes a lock if it is free. The kernel releases it when the file is closed or its process dies.
pub(crate) fn try_lock(file: &File, is_exclusive: bool) -> io::Result<bool> {
    let how = if is_exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    match rustix::io::retry_on_intr(|| flock(file, how)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits for a lock.
pub(crate) fn wait_lock(path: &Path, is_exclusive: bool) -> Result<File, MountError> {
    let file = lock_file(path)?;
    let how = if is_exclusive { FlockOperation::LockExclusive } else { FlockOperation::LockShared };
    rustix::io::retry_on_intr(|| flock(&file, how)).map_err(MountError::os("lock", path))?;
    Ok(file)
}

/// Whether an open file is still the one at a path.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Replaces a record in one step.
pub(crate) fn write_record(path: &Path, record: &impl Serialize) -> Result<(), MountError> {
    let bytes = serde_json::to_vec(record).map_err(|error| MountError::damaged(path, error))?;
    write_bytes(path, &bytes)
}

/// Replaces a file in one step.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), MountError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".new");
    let partial = PathBuf::from(partial);
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(bytes)?;
        fs::rename(&partial, path)
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&partial);
        MountError::Io { what: "write", path: path.to_owned(), source }
    })
}

/// Reads a record; nothing if there is none.
pub(crate) fn read_record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, MountError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(MountError::Io { what: "read", path: path.to_owned(), source }),
    };
    if metadata.len() > MAX_RECORD {
        return Err(MountError::damaged(path, "it is too large"));
    }
    let bytes = fs::read(path).map_err(MountError::io("read", path))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| MountError::damaged(path, error))
}

/// Names in a directory that belong to us, sorted. Nothing if the directory does not exist.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, MountError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(MountError::Io { what: "read", path: path.to_owned(), source }),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(MountError::io("read", path))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Removes a directory whose directories may not be writable. Follows no link.
pub(crate) fn remove_tree(path: &Path) -> Result<(), MountError> {
    match fs::remove_dir_all(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    open_up(path).and_then(|()| fs::remove_dir_all(path)).map_err(MountError::io("remove", path))
}

/// Lets the owner enter and change every directory below a path.
fn open_up(path: &Path) -> io::Result<()> {
    let mut stack = vec![path.to_owned()];
    while let Some(directory) = stack.pop() {
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                stack.push(entry.path());
            }
        }
    }
    Ok(())
}

/// The identity of this boot of the host: what was written before the last boot is recognised by it.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_with_unwritable_directories_is_removed_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir_all(outside.join("kept")).unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("a/link")).unwrap();
        fs::set_permissions(tree.join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o500)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.join("kept").exists());
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn a_damaged_record_is_an_error_and_a_missing_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        assert_eq!(read_record::<Vec<u8>>(&path).unwrap(), None);
        write_record(&path, &vec![1_u8]).unwrap();
        assert_eq!(read_record::<Vec<u8>>(&path).unwrap(), Some(vec![1]));
        fs::write(&path, "{").unwrap();
        assert!(matches!(read_record::<Vec<u8>>(&path), Err(MountError::Damaged { .. })));
    }
}
