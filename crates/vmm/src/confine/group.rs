//! The cgroup of one machine.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ConfineError;
use super::limits::{Limits, SWAP, oom_kills};

/// How long processes may take to leave a cgroup that gets child cgroups.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The cgroup of one machine.
#[derive(Clone, Debug)]
pub struct Group(PathBuf);

impl Group {
    /// An existing cgroup.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Creates a cgroup. One of the same name that an earlier machine left is removed, together with its counters.
    pub(super) fn make(path: PathBuf) -> Result<Self, ConfineError> {
        let failed = || ConfineError::io(format!("make the group {}", path.display()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir(&path).and_then(|()| fs::create_dir(&path)).map_err(failed())?;
            }
            made => made.map_err(failed())?,
        }
        Ok(Self(path))
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Moves a process into it.
    pub(super) fn take_in(&self, pid: u32) -> io::Result<()> {
        write(&self.0.join("cgroup.procs"), &pid.to_string())
    }

    /// Sets its limits. Returns the controllers that are missing for them.
    pub(super) fn apply(&self, limits: &Limits) -> Result<Vec<&'static str>, ConfineError> {
        let mut missing = Vec::new();
        for (controller, file, value) in limits.files() {
            let path = self.0.join(file);
            match write(&path, &value) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.0.is_dir() => {
                    if file != SWAP && !missing.contains(&controller) {
                        missing.push(controller);
                    }
                }
                Err(error) => return Err(ConfineError::io(format!("set {}", path.display()))(error)),
            }
        }
        Ok(missing)
    }

    /// The limits, as read from the kernel.
    pub fn limits(&self) -> Limits {
        Limits::read(|file| fs::read_to_string(self.0.join(file)).ok())
    }

    /// Whether the kernel killed the machine because it needed more memory than its limit.
    pub fn ran_out_of_memory(&self) -> bool {
        fs::read_to_string(self.0.join("memory.events")).is_ok_and(|events| oom_kills(&events) > 0)
    }

    /// Removes it. If a process is still in it, it is removed by the next sweep.
    pub fn remove(&self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Enables controllers for the children of a cgroup. Controllers that are not delegated are noticed when limits are set.
pub(super) fn enable(group: &Path, controllers: &[&'static str]) -> Result<(), ConfineError> {
    let path = group.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&path).map_err(ConfineError::io(format!("read {}", path.display())))?;
    let is_on = |controller: &str| enabled.split_whitespace().any(|on| on == controller);
    let deadline = Instant::now() + PATIENCE;
    for controller in controllers.iter().filter(|controller| !is_on(controller)) {
        loop {
            match write(&path, &format!("+{controller}")) {
                // Another machine's process is being moved from here to its own cgroup.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                // The controller is not delegated.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP)) => break,
                done => {
                    done.map_err(ConfineError::io(format!("enable {controller} in {}", path.display())))?;
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Removes the groups inside one that nothing runs in, but for those that are named.
pub(super) fn sweep(group: &Path, keep: &[PathBuf]) -> usize {
    let entries = fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    let unused = entries.filter(|path| path.is_dir() && !keep.contains(path));
    unused.filter(|path| fs::remove_dir(path).is_ok()).count()
}

/// A file of the kernel's is never made by writing to it.
fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[&str]) -> (tempfile::TempDir, Group) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let group = Group::at(dir.path().to_owned());
        (dir, group)
    }

    #[test]
    fn limits_are_set_and_read_back() {
        let (_dir, group) = group(&["memory.max", "memory.swap.max", "cpu.max", "pids.max"]);
        let limits = Limits::of(1, 256 << 20, 64 << 20, None);
        assert_eq!(group.apply(&limits).unwrap(), Vec::<&str>::new());
        assert_eq!(group.limits(), limits);
    }

    #[test]
    fn controllers_that_are_not_delegated_are_named_and_the_others_limit_all_the_same() {
        let (_dir, group) = group(&["memory.max", "pids.max"]);
        let limits = Limits::of(1, 256 << 20, 64 << 20, None);
        assert_eq!(group.apply(&limits).unwrap(), ["cpu"]);
        let expected = Limits { cpu_percent: None, swap_bytes: None, ..limits };
        assert_eq!(group.limits(), expected);
    }

    #[test]
    fn a_group_that_vanished_is_no_group_without_controllers() {
        let (dir, group) = group(&[]);
        drop(dir);
        assert!(group.apply(&Limits::of(1, 1, 1, None)).unwrap_err().passes());
        assert!(group.take_in(1).is_err());
        assert!(!group.ran_out_of_memory());
        group.remove();
    }

    #[test]
    fn a_kill_for_lack_of_memory_is_seen() {
        let (dir, group) = group(&["memory.events"]);
        assert!(!group.ran_out_of_memory());
        fs::write(dir.path().join("memory.events"), "oom 1\noom_kill 1\n").unwrap();
        assert!(group.ran_out_of_memory());
    }

    #[test]
    fn making_a_group_anew_forgets_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        assert!(Group::make(dir.path().join("none/m")).unwrap_err().passes());
        Group::make(path.clone()).unwrap();
        Group::make(path.clone()).unwrap();
        fs::write(path.join("busy"), "").unwrap();
        assert!(Group::make(path).is_err(), "one with something in it is not taken over");
    }

    #[test]
    fn only_what_is_off_is_switched_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cgroup.subtree_control");
        fs::write(&path, "memory pids\n").unwrap();
        enable(dir.path(), &["memory"]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "memory pids\n");
        enable(dir.path(), &["memory", "cpu"]).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("+cpu"));
        assert!(enable(&dir.path().join("none"), &["cpu"]).unwrap_err().passes());
    }

    #[test]
    fn empty_groups_are_swept_unless_somebody_still_wants_to_look() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["empty", "wanted", "busy"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("busy").join("x"), "").unwrap();
        fs::write(path("cgroup.procs"), "").unwrap();
        assert_eq!(sweep(dir.path(), &[path("wanted")]), 1);
        assert!(!path("empty").exists() && path("wanted").exists() && path("busy").exists());
        assert_eq!(sweep(&path("none"), &[]), 0);
    }
}
