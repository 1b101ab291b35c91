//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use agentiso_core::ports::partial_name;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

/// A file beside the place it is meant for; removed unless it gets there.
pub struct Partial {
    file: File,
    path: PathBuf,
    target: PathBuf,
    in_place: bool,
}

impl Partial {
    /// Opens a new file for what shall once be at `target`, in place of one that was never finished.
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

    /// The file, to be filled.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name; an error of kind `AlreadyExists` if something has it.
    pub fn publish(mut self) -> io::Result<()> {
        match rustix::fs::renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE) {
            // Some network file systems cannot refuse to replace.
            Err(Errno::INVAL | Errno::NOSYS) if self.target.symlink_metadata().is_err() => {
                fs::rename(&self.path, &self.target)?;
            }
            other => other?,
        }
        self.in_place = true;
        Ok(())
    }

    /// Puts the file in the place of the one that has its name, durably: after this the old one is not needed
    /// any more, not even if the host loses power.
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
            // Whatever failed before is what matters; the next attempt removes it too.
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
