//! Where the daemon writes what it has to say.
#![expect(clippy::disallowed_methods, reason = "when the daemon starts, and once per 8 MiB of log")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A log that would be longer than this is put aside; one is kept.
const LONG: u64 = 8 << 20;
/// The longest entry; the rest of it is left out.
const LONGEST_ENTRY: usize = 16 << 10;

/// The log of an installation's daemon.
pub fn log_file(home: &Path) -> PathBuf {
    home.join("daemon.log")
}

/// Opens the log for writing.
pub(super) fn open(home: &Path) -> io::Result<File> {
    let path = log_file(home);
    if fs::metadata(&path).is_ok_and(|metadata| metadata.len() > LONG) {
        put_aside(&path)?;
    }
    create(&path)
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn put_aside(path: &Path) -> io::Result<()> {
    fs::rename(path, path.with_extension("log.1"))
}

/// The log of a daemon that runs: put aside when it is long, so that the two files together have a limit.
pub struct BoundedLog {
    path: PathBuf,
    file: File,
    most: u64,
    is_stderr: bool,
}

impl BoundedLog {
    /// The log that is standard error already.
    pub fn stderr(home: &Path) -> io::Result<Self> {
        let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Ok(Self { path: log_file(home), file, most: LONG, is_stderr: true })
    }

    /// Begins a new file in place of one that is long.
    fn begin_anew(&mut self) -> io::Result<()> {
        let (named, own) = (fs::metadata(&self.path), self.file.metadata()?);
        match named {
            // Somebody else's: it is left alone.
            Ok(named) if (named.dev(), named.ino()) != (own.dev(), own.ino()) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(_) => put_aside(&self.path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.file = create(&self.path)?;
        if self.is_stderr {
            rustix::stdio::dup2_stderr(&self.file)?;
        }
        Ok(())
    }
}

impl Write for BoundedLog {
    /// Takes a whole entry.
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let about = self.file.metadata()?;
        let length = about.len().saturating_add(entry.len() as u64);
        // A file that cannot be put aside may grow once more as long, and no further.
        if about.is_file() && length > self.most && self.begin_anew().is_err() && length > 2 * self.most {
            return Ok(entry.len());
        }
        match entry.get(..LONGEST_ENTRY) {
            Some(begin) if entry.len() > LONGEST_ENTRY => {
                self.file.write_all(&[begin, " … (truncated)\n".as_bytes()].concat())?;
            }
            _ => self.file.write_all(entry)?,
        }
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(home: &Path, most: u64) -> BoundedLog {
        let path = log_file(home);
        BoundedLog { file: create(&path).unwrap(), path, most, is_stderr: false }
    }

    #[test]
    fn a_log_is_put_aside_while_it_is_written_and_never_grows_beyond_its_limit() {
        let home = tempfile::tempdir().unwrap();
        let mut log = log(home.path(), 1000);
        for number in 0..500 {
            log.write_all(format!("entry {number}\n").as_bytes()).unwrap();
        }
        let (now, before) = (home.path().join("daemon.log"), home.path().join("daemon.log.1"));
        let text = fs::read_to_string(&now).unwrap();
        assert!(text.ends_with("entry 499\n") && text.len() <= 1000, "{text}");
        let old = fs::read_to_string(before).unwrap();
        assert!(old.len() <= 1000 && old.starts_with("entry "), "{old}");
        let mode = fs::metadata(now).unwrap().mode();
        assert_eq!((mode & 0o777, fs::read_dir(home.path()).unwrap().count()), (0o600, 2));
    }

    #[test]
    fn a_long_entry_is_cut() {
        let home = tempfile::tempdir().unwrap();
        log(home.path(), LONG).write_all(&vec![b'x'; 1 << 20]).unwrap();
        let text = fs::read_to_string(log_file(home.path())).unwrap();
        assert!(text.len() < LONGEST_ENTRY + 100 && text.ends_with("(truncated)\n"), "{}", text.len());
    }

    #[test]
    fn a_log_that_cannot_be_put_aside_stops_growing_and_what_has_its_name_stays() {
        let home = tempfile::tempdir().unwrap();
        let mut log = log(home.path(), 1000);
        fs::rename(log_file(home.path()), home.path().join("moved")).unwrap();
        fs::write(log_file(home.path()), "of somebody else").unwrap();
        for _ in 0..500 {
            log.write_all(b"an entry\n").unwrap();
        }
        assert_eq!(fs::read_to_string(log_file(home.path())).unwrap(), "of somebody else");
        assert!(fs::metadata(home.path().join("moved")).unwrap().len() <= 2000);
    }
}
