//! Where the daemon writes what it has to say.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A log longer than this is put aside when a daemon starts; one is kept.
const LONG: u64 = 8 << 20;

/// The log of an installation's daemon.
pub fn log_file(home: &Path) -> PathBuf {
    home.join("daemon.log")
}

/// Opens the log for writing.
pub(super) fn open(home: &Path) -> io::Result<File> {
    let path = log_file(home);
    if fs::metadata(&path).is_ok_and(|metadata| metadata.len() > LONG) {
        fs::rename(&path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
