//! Creating files atomically.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use agentiso_core::ports::partial_name;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

/// A file with a partial name, removed when dropped unless it got its final name.
pub struct Partial {
    file: File,
    path: PathBuf,
    target: PathBuf,
    in_place: bool,
}

impl Partial {
    /// Creates a partial file for `target`, replacing one that a killed process left.
    pub fn create(target: &Path) -> io::Result<Self> {
        let name =
            target.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file name"))?;
        let path = target.with_file_name(partial_name(name));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, target: target.to_owned(), in_place: false })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Renames the file to its final name. Fails with `AlreadyExists` if there is such a file.
    pub fn publish(mut self) -> io::Result<()> {
        match rustix::fs::renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE) {
            // Some network file systems do not support `RENAME_NOREPLACE`.
            Err(Errno::INVAL | Errno::NOSYS) if self.target.symlink_metadata().is_err() => {
                fs::rename(&self.path, &self.target)?;
            }
            other => other?,
        }
        self.in_place = true;
        Ok(())
    }

    /// Replaces the file of that name durably: after a power failure the new file is there.
    pub fn replace(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        self.in_place = true;
        let dir = self.target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.in_place {
            // The earlier error is reported; the next attempt removes the file too.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_was_not_finished_vanishes() {
        let dir = tempfile::tempdir().unwrap();
        let partial = Partial::create(&dir.path().join("disk")).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(partial);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stale_file_is_replaced_and_the_new_one_gets_its_name() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".disk.partial"), "stale").unwrap();
        let partial = Partial::create(&dir.path().join("disk")).unwrap();
        partial.file().write_all(b"new").unwrap();
        partial.publish().unwrap();
        assert_eq!(fs::read(dir.path().join("disk")).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn publishing_never_overwrites() {
        let dir = tempfile::tempdir().unwrap();
        let partial = Partial::create(&dir.path().join("disk")).unwrap();
        fs::write(dir.path().join("disk"), "precious").unwrap();
        assert_eq!(partial.publish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(dir.path().join("disk")).unwrap(), b"precious");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
