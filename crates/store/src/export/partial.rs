//! A directory that is being filled, under a name that says so. It is locked while its process lives.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, RenameFlags, flock, renameat_with};

use crate::error::StoreError;
use crate::store::random_name;

const MARK: &str = ".partial-";
const ATTEMPTS: usize = 8;

/// Removed when dropped, unless it was published.
#[derive(Debug)]
pub(super) struct Partial {
    path: PathBuf,
    pub(super) directory: File,
}

impl Partial {
    /// Creates a directory beside `destination`, which must not exist, or be an empty directory.
    pub(super) fn create(destination: &Path) -> Result<Self, StoreError> {
        let name = destination.file_name().ok_or_else(|| {
            StoreError::invalid(destination.display(), "the destination must end with a name")
        })?;
        require_free(destination)?;
        let parent = parent(destination);
        remove_abandoned(parent)?;
        for _ in 0..ATTEMPTS {
            let path = parent.join(prefixed(name, &format!("{MARK}{}", random_name()?)));
            let created = fs::DirBuilder::new().mode(0o700).create(&path);
            created.map_err(StoreError::io("create", &path))?;
            let directory = match File::open(&path) {
                Ok(directory) => directory,
                // Another process took it for abandoned, because it had no lock yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(StoreError::Io { what: "open", path, source }),
            };
            let is_locked = flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok();
            if is_locked && path.exists() {
                return Ok(Self { path, directory });
            }
        }
        Err(StoreError::Busy { path: parent.to_owned() })
    }

    /// Gives the directory its final name.
    pub(super) fn publish(mut self, destination: &Path) -> Result<(), StoreError> {
        require_free(destination)?;
        let cwd = rustix::fs::CWD;
        let moved = match renameat_with(cwd, &self.path, cwd, destination, RenameFlags::NOREPLACE) {
            // An empty directory is replaced; one that is not empty makes this fail.
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::INVAL) => fs::rename(&self.path, destination),
            other => other.map_err(io::Error::from),
        };
        moved.map_err(StoreError::io("create", destination))?;
        self.path = PathBuf::new();
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = remove_tree(&self.path);
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn prefixed(name: &OsStr, suffix: &str) -> OsString {
    // The whole must be a valid name, too.
    let name = name.as_bytes().get(..180).unwrap_or(name.as_bytes());
    let mut result = OsString::from(".");
    result.push(OsStr::from_bytes(name));
    result.push(suffix);
    result
}

fn require_free(destination: &Path) -> Result<(), StoreError> {
    match fs::symlink_metadata(destination) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(StoreError::Io { what: "read", path: destination.to_owned(), source }),
        Ok(metadata) if metadata.is_dir() => {
            let mut entries = fs::read_dir(destination).map_err(StoreError::io("read", destination))?;
            if entries.next().is_none() {
                Ok(())
            } else {
                Err(StoreError::Exists { path: destination.to_owned() })
            }
        }
        Ok(_) => Err(StoreError::Exists { path: destination.to_owned() }),
    }
}

/// Removes the incomplete directories of exports that were killed; returns how many.
pub fn remove_abandoned(parent: &Path) -> Result<usize, StoreError> {
    let mut removed = 0;
    for entry in fs::read_dir(parent).map_err(StoreError::io("read", parent))? {
        let entry = entry.map_err(StoreError::io("read", parent))?;
        let name = entry.file_name();
        let name = name.as_bytes();
        let random = name.rsplitn(2, |byte| *byte == b'-').next().unwrap_or_default();
        let is_ours = name.starts_with(b".")
            && name.ends_with(random)
            && name.strip_suffix(random).is_some_and(|front| front.ends_with(MARK.as_bytes()))
            && random.len() == 32
            && random.iter().all(u8::is_ascii_hexdigit);
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_ours || !is_directory {
            continue;
        }
        let Ok(directory) = File::open(entry.path()) else { continue };
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove_tree(&entry.path()).map_err(StoreError::io("remove", entry.path()))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes a directory whose directories may not be writable.
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
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
    fs::remove_dir_all(path)
}
