//! The limits of a machine.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ConfineError;

/// The period of the CPU quota, in microseconds: the kernel's default.
const PERIOD: u64 = 100_000;
/// CPU time of QEMU's own threads (main loop, disk, vhost), in percent of one CPU.
const OWN_PERCENT: u64 = 50;
/// Threads in addition to one per vCPU: QEMU starts up to 64 for disk requests, and a few for itself.
const OWN_THREADS: u64 = 128;

/// The limits of a machine. Absent means unlimited.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Limits {
    /// Bytes of memory, the guest's and QEMU's own.
    pub memory_bytes: Option<u64>,
    /// Bytes of swap.
    pub swap_bytes: Option<u64>,
    /// CPU time, in percent of one CPU.
    pub cpu_percent: Option<u64>,
    /// Threads.
    pub tasks: Option<u64>,
    /// Disk traffic.
    pub io: Option<IoLimits>,
}

/// Limits on the traffic of one disk.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct IoLimits {
    /// The disk, as `major:minor`.
    pub device: String,
    /// Bytes read per second.
    pub read: Option<u64>,
    /// Bytes written per second.
    pub write: Option<u64>,
}

impl Limits {
    /// The limits of a machine of this size.
    pub fn of(vcpus: u32, memory_bytes: u64, overhead_bytes: u64, io: Option<IoLimits>) -> Self {
        Self {
            memory_bytes: Some(memory_bytes.saturating_add(overhead_bytes)),
            // An idle guest may be swapped out, but swap does not add to its memory.
            swap_bytes: Some(memory_bytes),
            cpu_percent: Some(u64::from(vcpus) * 100 + OWN_PERCENT),
            tasks: Some(u64::from(vcpus) + OWN_THREADS),
            io,
        }
    }

    /// The files to write, each with the controller it belongs to.
    pub(super) fn files(&self) -> Vec<(&'static str, &'static str, String)> {
        let quota = |percent: u64| format!("{} {PERIOD}", percent * PERIOD / 100);
        let io = |io: &IoLimits| format!("{} rbps={} wbps={}", io.device, or_max(io.read), or_max(io.write));
        let files = [
            ("memory", "memory.max", self.memory_bytes.map(|bytes| bytes.to_string())),
            ("memory", SWAP, self.swap_bytes.map(|bytes| bytes.to_string())),
            ("cpu", "cpu.max", self.cpu_percent.map(quota)),
            ("pids", "pids.max", self.tasks.map(|tasks| tasks.to_string())),
            ("io", "io.max", self.io.as_ref().map(io)),
        ];
        files.into_iter().filter_map(|(owner, file, value)| Some((owner, file, value?))).collect()
    }

    /// Parses the limits from the files of a cgroup.
    pub(super) fn read(file: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| file(name)?.trim().parse().ok();
        Self {
            memory_bytes: number("memory.max"),
            swap_bytes: number(SWAP),
            cpu_percent: file("cpu.max").and_then(|text| parse_quota(&text)),
            tasks: number("pids.max"),
            io: file("io.max").and_then(|text| parse_io(&text)),
        }
    }
}

/// Absent on a kernel without swap, where no limit is needed.
pub(super) const SWAP: &str = "memory.swap.max";

fn or_max(value: Option<u64>) -> String {
    value.map_or_else(|| "max".to_owned(), |value| value.to_string())
}

fn parse_quota(text: &str) -> Option<u64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    quota.checked_mul(100)?.checked_div(period)
}

/// The first line: each machine has one disk.
fn parse_io(text: &str) -> Option<IoLimits> {
    let mut words = text.lines().next()?.split(' ');
    let device = words.next().filter(|device| device.contains(':'))?.to_owned();
    let mut limits = IoLimits { device, read: None, write: None };
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        match key {
            "rbps" => limits.read = value.parse().ok(),
            "wbps" => limits.write = value.parse().ok(),
            _ => {}
        }
    }
    Some(limits)
}

/// The number of out-of-memory kills in `memory.events`.
pub(super) fn oom_kills(events: &str) -> u64 {
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The disk of a directory, as `major:minor` of the whole disk: partitions cannot be limited. `block` is
/// `/sys/dev/block`.
pub(super) fn disk_under(dir: &Path, device: u64, block: &Path) -> Result<String, ConfineError> {
    let refuse = |reason: &str| ConfineError::NoDevice { dir: dir.to_owned(), reason: reason.to_owned() };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    if major == 0 {
        return Err(refuse("its file system is on no disk of its own, or on several"));
    }
    let own = block.join(format!("{major}:{minor}"));
    let whole = if own.join("partition").exists() { own.join("../dev") } else { own.join("dev") };
    let number = std::fs::read_to_string(whole).map_err(|error| refuse(&error.to_string()))?;
    Ok(number.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn io() -> IoLimits {
        IoLimits { device: "259:0".to_owned(), read: Some(10 << 20), write: None }
    }

    #[test]
    fn a_machine_gets_its_memory_and_what_qemu_needs_besides() {
        let limits = Limits::of(2, 512 << 20, 192 << 20, Some(io()));
        let files = limits.files();
        assert_eq!(
            files,
            [
                ("memory", "memory.max", (704u64 << 20).to_string()),
                ("memory", "memory.swap.max", (512u64 << 20).to_string()),
                ("cpu", "cpu.max", "250000 100000".to_owned()),
                ("pids", "pids.max", "130".to_owned()),
                ("io", "io.max", "259:0 rbps=10485760 wbps=max".to_owned()),
            ]
        );
    }

    #[test]
    fn what_is_not_limited_is_read_as_that() {
        let file = |name: &str| match name {
            "memory.max" | "pids.max" => Some("max\n".to_owned()),
            "cpu.max" => Some("max 100000\n".to_owned()),
            "io.max" => Some(String::new()),
            _ => None,
        };
        assert_eq!(Limits::read(file), Limits::default());
    }

    #[test]
    fn kills_are_counted_and_other_events_are_not() {
        assert_eq!(oom_kills("low 0\nhigh 0\nmax 31\noom 1\noom_kill 1\noom_group_kill 0\n"), 1);
        assert_eq!(oom_kills("max 31\noom 5\noom_kill 0\n"), 0);
        assert_eq!(oom_kills(""), 0);
    }

    #[test]
    fn a_partition_is_limited_by_its_disk_and_a_file_system_without_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("devices/sda");
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::write(disk.join("dev"), "8:0\n").unwrap();
        fs::write(disk.join("sda1/dev"), "8:1\n").unwrap();
        fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        let block = dir.path().join("block");
        fs::create_dir(&block).unwrap();
        std::os::unix::fs::symlink("../devices/sda", block.join("8:0")).unwrap();
        std::os::unix::fs::symlink("../devices/sda/sda1", block.join("8:1")).unwrap();
        let under = |major, minor| disk_under(Path::new("/d"), rustix::fs::makedev(major, minor), &block);
        assert_eq!(under(8, 0).unwrap(), "8:0");
        assert_eq!(under(8, 1).unwrap(), "8:0");
        assert!(matches!(under(0, 43), Err(ConfineError::NoDevice { .. })));
        assert!(matches!(under(9, 9), Err(ConfineError::NoDevice { .. })));
    }

    proptest! {
        #[test]
        fn limits_are_read_back_as_they_were_written(
            vcpus in 1u32..256, memory in 0u64..1 << 40, overhead in 0u64..1 << 32,
            read in proptest::option::of(any::<u64>()),
        ) {
            let io = read.map(|read| IoLimits { device: "8:16".to_owned(), read: Some(read), write: Some(1) });
            let limits = Limits::of(vcpus, memory, overhead, io);
            let files: HashMap<_, _> =
                limits.files().into_iter().map(|(_, file, value)| (file, value + "\n")).collect();
            prop_assert_eq!(Limits::read(|name| files.get(name).cloned()), limits);
        }

        #[test]
        fn whatever_a_file_says_nothing_panics(text in "\\PC*") {
            let _ = (Limits::read(|_| Some(text.clone())), oom_kills(&text));
        }
    }
}
