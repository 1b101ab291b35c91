//! Where files wait between their source and their destination.
//!
//! Only the user can open it, and no agent can reach it. It goes when the copy ends; what a killed copy left behind is
//! removed by the next one, which sees that nobody holds its lock.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use tokio::sync::oneshot;

use super::side::absolute;
use super::trouble;

const LOCK: &str = "lock";

/// A directory that goes with its owner.
pub struct Staging {
    directory: PathBuf,
    _lock: File,
}

impl Staging {
    /// Makes one below `cache`, and removes those whose owners are gone.
    pub fn new(cache: &Path) -> Result<Self, Failure> {
        let all = cache.join("cp");
        sweep(&all);
        let directory = all.join(uuid::Uuid::new_v4().to_string());
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|error| trouble(&directory, &error))?;
        let path = directory.join(LOCK);
        let lock = File::create_new(&path).and_then(|file| file.lock().map(|()| file));
        let lock = lock.map_err(|error| trouble(&path, &error))?;
        Ok(Self { directory, _lock: lock })
    }

    /// The path of a file or directory in it.
    pub fn path(&self, name: &str) -> Result<String, Failure> {
        absolute(&self.directory.join(name))
    }

    /// Keeps all of standard input in a file. In a thread of its own, because a read of standard input cannot be taken
    /// back: one that is no longer wanted must not keep us from ending.
    pub async fn keep_input(path: String) -> Result<(), Failure> {
        let (done, kept) = oneshot::channel();
        std::thread::spawn(move || {
            let file = File::create_new(&path);
            let copied = file.and_then(|mut file| io::copy(&mut io::stdin().lock(), &mut file));
            let _ = done.send(copied.map(drop).map_err(|error| trouble(Path::new(&path), &error)));
        });
        kept.await.map_err(|_| {
            Failure::new(Code::Internal, "reading standard input failed because of a bug in agentiso")
        })?
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next copy.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn sweep(all: &Path) {
    // None yet, or not ours: then making one says why.
    let Ok(entries) = fs::read_dir(all) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if File::open(path.join(LOCK)).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_copy_left_is_removed_by_the_next_and_what_is_in_use_stays() {
        let cache = tempfile::tempdir().unwrap();
        let left = cache.path().join("cp/left");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(left.join("stdin"), "secret").unwrap();
        let first = Staging::new(cache.path()).unwrap();
        assert!(!left.exists());
        let second = Staging::new(cache.path()).unwrap();
        assert!(first.directory.exists());
        let directory = second.directory.clone();
        drop(second);
        assert!(!directory.exists() && first.directory.exists());
    }
}
