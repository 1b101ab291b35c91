//! One daemon per data directory.
#![expect(clippy::disallowed_methods, reason = "before the daemon serves, and in commands")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Held for as long as the daemon lives.
pub struct DaemonLock {
    _file: File,
}

impl DaemonLock {
    /// Takes the lock, or says who has it.
    pub fn take(home: &Path) -> Result<Self, Failure> {
        let trouble = |error: io::Error| {
            Failure::new(Code::of_io(&error), format!("{}: {error}", path(home).display()))
        };
        std::fs::create_dir_all(home).map_err(trouble)?;
        let mut file = open(home).map_err(trouble)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let pid =
                    read_pid(&mut file).map_or("another process".to_owned(), |pid| format!("process {pid}"));
                let message = format!("a daemon is already running for {}: {pid}", home.display());
                return Err(Failure::new(Code::DaemonUnavailable, message)
                    .with_remedy("agentiso daemon status shows it; agentiso daemon stop ends it"));
            }
            Err(errno) => return Err(trouble(errno.into())),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()));
        written.map_err(trouble)?;
        Ok(Self { _file: file })
    }
}

/// The daemon's process, if one runs.
pub fn running_pid(home: &Path) -> Option<u32> {
    let mut file = OpenOptions::new().read(true).open(path(home)).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => read_pid(&mut file),
        _ => None,
    }
}

fn open(home: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path(home))
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn path(home: &Path) -> PathBuf {
    home.join("daemon.lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_daemon_is_told_who_is_there_and_the_lock_goes_with_its_holder() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(running_pid(home.path()), None);
        let lock = DaemonLock::take(home.path()).unwrap();
        assert_eq!(running_pid(home.path()), Some(std::process::id()));
        let Err(refused) = DaemonLock::take(home.path()) else { panic!("two daemons") };
        assert!(refused.message().contains(&std::process::id().to_string()));
        drop(lock);
        assert_eq!(running_pid(home.path()), None);
        DaemonLock::take(home.path()).unwrap();
    }
}
