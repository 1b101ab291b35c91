//! An installation's id, and the lock between creating and removing volumes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::name::HomeId;

const DIR: &str = ".zfs";
const HOME: &str = "home";
const LOCK: &str = "lock";

/// The directory of these files.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    dir: PathBuf,
}

impl Notes {
    /// Opens the files in `dir`, creating them if they are missing, and reads the installation's id.
    pub(super) fn open(dir: &Path) -> io::Result<(Self, HomeId)> {
        let notes = Self { dir: dir.join(DIR) };
        fs::create_dir_all(notes.dir())?;
        let file = notes.dir.join(HOME);
        if !file.exists() {
            let _lock = notes.lock(FlockOperation::LockExclusive)?;
            if !file.exists() {
                let partial = notes.dir.join("home.partial");
                fs::write(&partial, HomeId::random()?.as_str())?;
                fs::rename(partial, &file)?;
            }
        }
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", file.display()));
        let home = HomeId::parse(fs::read_to_string(&file)?.trim()).ok_or_else(damaged)?;
        Ok((notes, home))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Keeps volumes from being removed (shared lock).
    pub(super) fn making(&self) -> io::Result<File> {
        self.lock(FlockOperation::LockShared)
    }

    /// Waits until nobody creates volumes, and keeps others from it (exclusive lock).
    pub(super) fn removing(&self) -> io::Result<File> {
        self.lock(FlockOperation::LockExclusive)
    }

    fn lock(&self, how: FlockOperation) -> io::Result<File> {
        lock(&self.dir.join(LOCK), how)
    }
}

/// Opens a file and locks it.
pub(super) fn lock(path: &Path, how: FlockOperation) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    flock(&file, how)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_keeps_its_identity_and_shares_it_with_no_other() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (_, home) = Notes::open(one.path()).unwrap();
        assert_eq!(Notes::open(one.path()).unwrap().1, home);
        assert_ne!(Notes::open(other.path()).unwrap().1, home);
        fs::write(one.path().join(".zfs/home"), "../../tank").unwrap();
        assert!(Notes::open(one.path()).is_err());
    }
}
