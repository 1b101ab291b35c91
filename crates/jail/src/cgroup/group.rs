//! One group, in every hierarchy that it needs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use super::find::{Controller, Parent, Version, parents};
use crate::spec::Limits;
use crate::wire::Grouped;

const PREFIX: &str = "agentiso-jail-";
/// The period over which processor time is counted, in microseconds.
const PERIOD: u64 = 100_000;
/// How often an empty group is removed before it is left to the next caller: the kernel lets go of the last process a little
/// after it was waited for.
const REMOVALS: u32 = 1000;

/// Numbers the groups of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Directories of a group, which are removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    dirs: BTreeMap<PathBuf, Version>,
    limits: Grouped,
}

impl Group {
    /// Makes a group for those limits that need one. `None` if none does, or if none can be made.
    pub fn make(limits: &Limits) -> Option<Self> {
        let wanted = wanted(limits);
        if wanted.is_empty() {
            return None;
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let enabled = |dir: &Path| fs::read_to_string(dir.join("cgroup.subtree_control")).ok();
        let parents = parents(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"), &enabled);
        let name = format!("{PREFIX}{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut group = Self { dirs: BTreeMap::new(), limits: Grouped::default() };
        for (controller, values) in wanted {
            let made = parents
                .get(&controller)
                .into_iter()
                .flatten()
                .find_map(|parent| group.limit(parent, &name, &values).ok());
            if made.is_some() {
                match controller {
                    Controller::Cpu => group.limits.cpu = true,
                    Controller::Memory => group.limits.memory = true,
                    Controller::Pids => group.limits.processes = true,
                }
            }
        }
        (!group.dirs.is_empty()).then_some(group)
    }

    /// Which limits it enforces.
    pub fn limits(&self) -> Grouped {
        self.limits
    }

    /// Files to which a process writes `0` to join.
    pub fn files_to_join(&self) -> Vec<PathBuf> {
        self.dirs.keys().map(|dir| dir.join("cgroup.procs")).collect()
    }

    /// How often a process was killed because of the memory limit.
    pub fn oom_kills(&self) -> u64 {
        let of = |(dir, version): (&PathBuf, &Version)| {
            let file = match version {
                Version::One => "memory.oom_control",
                Version::Two => "memory.events",
            };
            let text = fs::read_to_string(dir.join(file)).ok()?;
            text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
        };
        self.dirs.iter().filter_map(of).sum()
    }

    /// Makes the group in a hierarchy, unless it is there, and sets its limits.
    fn limit(&mut self, parent: &Parent, name: &str, values: &Values) -> io::Result<()> {
        let dir = parent.dir.join(name);
        if !self.dirs.contains_key(&dir) {
            remove_abandoned(&parent.dir);
            fs::create_dir(&dir)?;
            self.dirs.insert(dir.clone(), parent.version);
        }
        let (required, optional) = match parent.version {
            Version::One => (&values.one, None),
            Version::Two => (&values.two, values.two_optional.as_ref()),
        };
        for (file, value) in required {
            fs::write(dir.join(file), value)?;
        }
        if let Some((file, value)) = optional {
            // A kernel without swap accounting does not have it.
            let _ = fs::write(dir.join(file), value);
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for dir in self.dirs.keys() {
            for _ in 0..REMOVALS {
                match fs::remove_dir(dir) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::yield_now(),
                    _ => break,
                }
            }
        }
    }
}

/// Files of a group and their contents, in both versions.
#[derive(Debug, Eq, PartialEq)]
struct Values {
    one: Vec<(&'static str, String)>,
    two: Vec<(&'static str, String)>,
    two_optional: Option<(&'static str, String)>,
}

/// The limits that need a group. Processes are counted without one where the kernel can.
fn wanted(limits: &Limits) -> BTreeMap<Controller, Values> {
    let mut wanted = BTreeMap::new();
    let both = |one: Vec<(&'static str, String)>, two| Values { one, two, two_optional: None };
    if let Some(bytes) = limits.memory {
        let bytes = bytes.to_string();
        let values = Values {
            one: vec![("memory.limit_in_bytes", bytes.clone())],
            two: vec![("memory.max", bytes)],
            two_optional: Some(("memory.swap.max", "0".to_owned())),
        };
        wanted.insert(Controller::Memory, values);
    }
    if let Some(milli) = limits.cpu_milli {
        let quota = (u64::from(milli) * PERIOD / 1000).max(1000);
        let one = vec![("cpu.cfs_period_us", PERIOD.to_string()), ("cpu.cfs_quota_us", quota.to_string())];
        wanted.insert(Controller::Cpu, both(one, vec![("cpu.max", format!("{quota} {PERIOD}"))]));
    }
    if let Some(processes) = limits.processes
        && (!wanted.is_empty() || !crate::helper::counts_processes())
    {
        let value = || vec![("pids.max", processes.to_string())];
        wanted.insert(Controller::Pids, both(value(), value()));
    }
    wanted
}

/// Removes groups of callers that have ended. Groups with processes cannot be removed.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
            // It may be another user's.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_the_kernel_wants_them() {
        let limits =
            Limits { memory: Some(1 << 20), cpu_milli: Some(1500), processes: Some(7), ..Limits::default() };
        let wanted = wanted(&limits);
        assert_eq!(wanted[&Controller::Memory].two[0], ("memory.max", "1048576".to_owned()));
        assert_eq!(wanted[&Controller::Cpu].two[0], ("cpu.max", "150000 100000".to_owned()));
        assert_eq!(wanted[&Controller::Cpu].one[1], ("cpu.cfs_quota_us", "150000".to_owned()));
        assert_eq!(wanted[&Controller::Pids].one[0], ("pids.max", "7".to_owned()));
        let none = Limits { processes: None, ..Limits::default() };
        assert!(super::wanted(&none).is_empty());
    }
}
