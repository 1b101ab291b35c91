//! The build directory of a kernel: one per key, kept until the kernel is selected, so that an interrupted build can be
//! continued.
//!
//! ```text
//! cache/kernel-build/lock        locked by the process that builds
//! cache/kernel-build/<key>/      source, objects, log
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentiso_core::progress::Progress;
use rustix::fs::{FlockOperation, flock};

use super::BuildError;

const LOOK_AGAIN: Duration = Duration::from_millis(100);
const LOCK: &str = "lock";

/// A locked build directory.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    _lock: File,
}

impl Place {
    /// Opens the directory for a key and continues in it. Directories of other keys are removed.
    pub(super) fn open(
        cache: &Path,
        key: &str,
        cancel: &AtomicBool,
        progress: &dyn Progress,
    ) -> Result<Self, BuildError> {
        let failed = |error| BuildError::io("use", cache)(error);
        fs::create_dir_all(cache).map_err(failed)?;
        let lock = File::create(cache.join(LOCK)).map_err(failed)?;
        wait_for(&lock, cancel, progress).map_err(failed)?;
        if cancel.load(Ordering::Relaxed) {
            return Err(BuildError::Cancelled);
        }
        for other in builds(cache).map_err(failed)? {
            if other.file_name().is_some_and(|name| name != key) {
                fs::remove_dir_all(&other).map_err(BuildError::io("remove", &other))?;
            }
        }
        let path = cache.join(key);
        fs::create_dir_all(&path).map_err(failed)?;
        Ok(Self { path, _lock: lock })
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a stage of the build was finished.
    pub(super) fn is_done(&self, stage: &str) -> bool {
        self.mark(stage).is_file()
    }

    /// Records that a stage of the build is finished.
    pub(super) fn set_done(&self, stage: &str) -> Result<(), BuildError> {
        let mark = self.mark(stage);
        fs::write(&mark, "").map_err(BuildError::io("write", &mark))
    }

    /// Removes it with everything in it.
    pub(super) fn remove(self) {
        // On failure it is removed by the next build.
        let _ = fs::remove_dir_all(&self.path);
    }

    fn mark(&self, stage: &str) -> PathBuf {
        self.path.join(format!("{stage}.done"))
    }
}

fn wait_for(lock: &File, cancel: &AtomicBool, progress: &dyn Progress) -> io::Result<()> {
    let mut told = false;
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            done => return Ok(done?),
        }
        if cancel.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !std::mem::replace(&mut told, true) {
            progress.step("waiting for another build", None);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The directories of builds.
fn builds(cache: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(cache)?.map(|entry| entry.map(|entry| entry.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_, _>>()?;
    let is_build = |path: &PathBuf| {
        path.is_dir() && path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
    };
    Ok(paths.into_iter().filter(is_build).collect())
}

/// An unfinished build.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unfinished {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is running.
    pub under_way: bool,
}

/// The unfinished build in `cache`, if there is one.
pub fn unfinished(cache: &Path) -> Option<Unfinished> {
    let path = builds(cache).ok()?.pop()?;
    let lock = File::open(cache.join(LOCK)).ok()?;
    let under_way = flock(&lock, FlockOperation::NonBlockingLockShared).is_err();
    Some(Unfinished { path, under_way })
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentiso_core::progress::Silent;

    fn open(cache: &Path, key: &str) -> Place {
        Place::open(cache, key, &AtomicBool::new(false), &Silent).unwrap()
    }

    #[test]
    fn what_was_left_is_found_again_under_its_key_and_only_there() {
        let place = tempfile::tempdir().unwrap();
        let cache = place.path().join("kernel-build");
        let first = open(&cache, "a");
        first.set_done("unpacked").unwrap();
        drop(first);
        assert_eq!(unfinished(&cache), Some(Unfinished { path: cache.join("a"), under_way: false }));
        assert!(open(&cache, "a").is_done("unpacked"));
        let second = open(&cache, "b");
        assert!(!second.is_done("unpacked") && !cache.join("a").exists());
        assert!(unfinished(&cache).unwrap().under_way);
        second.remove();
        assert_eq!(unfinished(&cache), None);
    }

    #[test]
    fn a_second_build_waits_for_the_first_and_can_be_called_off() {
        struct CancelOnStep<'a>(&'a AtomicBool);
        impl Progress for CancelOnStep<'_> {
            fn step(&self, what: &str, _total: Option<u64>) {
                assert_eq!(what, "waiting for another build");
                self.0.store(true, Ordering::Relaxed);
            }
            fn advance(&self, _amount: u64) {}
            fn done(&self, _remark: &str) {}
        }
        let place = tempfile::tempdir().unwrap();
        let first = open(place.path(), "a");
        let cancel = AtomicBool::new(false);
        let second = Place::open(place.path(), "b", &cancel, &CancelOnStep(&cancel));
        assert!(matches!(second, Err(BuildError::Cancelled)));
        assert!(first.path().is_dir());
    }
}
