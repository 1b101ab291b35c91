//! Limits that a process sets for itself.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::init::Sandbox;
use crate::enforcement::{Enforcement, Measure, State};
use crate::spec::Limits;
use crate::wire::Mode;

/// Pids below this are not given out again after the first round, so a namespace whose largest pid is `n` has room for
/// `n - 300` processes.
const RESERVED_PIDS: u32 = 300;
/// The first kernel in which `pid_max` belongs to a pid namespace. In older ones it is the host's.
const OWN_PID_MAX: (u32, u32) = (6, 14);
/// The first kernel that counts the processes of each user namespace by themselves.
const OWN_PROCESS_COUNT: (u32, u32) = (5, 14);

/// Sets the limits that the kernel knows for processes, and records all that were asked for.
pub(super) fn apply(sandbox: &Sandbox, enforcement: &mut Enforcement) {
    let limits = &sandbox.start.spec.limits;
    of_each_process(limits, enforcement);
    memory(sandbox, enforcement);
    processes(sandbox, enforcement);
    if limits.cpu_milli.is_some() {
        let (state, detail) = if sandbox.start.grouped.cpu {
            (State::Enforced, "cgroup")
        } else {
            (State::Unavailable, "no cgroup with the cpu controller can be made here")
        };
        enforcement.record(Measure::CpuLimit, state, detail);
    }
}

/// Whether the processes of a sandbox can be limited without a cgroup.
pub(crate) fn counts_processes() -> bool {
    let kernel = kernel_version();
    kernel >= OWN_PID_MAX || (kernel >= OWN_PROCESS_COUNT && !rustix::process::geteuid().is_root())
}

fn of_each_process(limits: &Limits, enforcement: &mut Enforcement) {
    let wanted = [
        (Resource::Core, Some(0), "core dumps"),
        (Resource::Cpu, limits.cpu_seconds, "processor time"),
        (Resource::Fsize, limits.file_size, "file size"),
        (Resource::Nofile, limits.open_files, "open files"),
    ];
    let mut failed = Vec::new();
    for (resource, limit, name) in wanted {
        if let Some(limit) = limit
            && !set(resource, limit)
        {
            failed.push(name);
        }
    }
    if failed.is_empty() {
        enforcement.record(Measure::ProcessResources, State::Enforced, "limits of each process");
    } else {
        let detail = format!("could not limit {}", failed.join(", "));
        enforcement.record(Measure::ProcessResources, State::Degraded, detail);
    }
}

fn memory(sandbox: &Sandbox, enforcement: &mut Enforcement) {
    let Some(limit) = sandbox.start.spec.limits.memory else { return };
    if sandbox.start.grouped.memory {
        enforcement.record(Measure::MemoryLimit, State::Enforced, "cgroup");
    } else if set(Resource::Data, limit) {
        let detail = "no memory cgroup can be made here: each process is limited by itself";
        enforcement.record(Measure::MemoryLimit, State::Degraded, detail);
    } else {
        enforcement.record(Measure::MemoryLimit, State::Unavailable, "no memory cgroup can be made here");
    }
}

fn processes(sandbox: &Sandbox, enforcement: &mut Enforcement) {
    let Some(limit) = sandbox.start.spec.limits.processes else { return };
    if sandbox.start.grouped.processes {
        enforcement.record(Measure::ProcessLimit, State::Enforced, "cgroup");
        return;
    }
    let kernel = kernel_version();
    if sandbox.start.mode != Mode::Plain && kernel >= OWN_PID_MAX {
        let pid_max = limit.saturating_add(RESERVED_PIDS + 1);
        if fs::write("/proc/sys/kernel/pid_max", pid_max.to_string()).is_ok() {
            enforcement.record(Measure::ProcessLimit, State::Enforced, "largest pid of the pid namespace");
            return;
        }
    }
    let counts_itself = sandbox.start.mode == Mode::Namespaces && kernel >= OWN_PROCESS_COUNT;
    let (state, detail) = match (set(Resource::Nproc, limit.into()), counts_itself) {
        (false, _) => (State::Unavailable, "no pids cgroup can be made here"),
        (true, _) if sandbox.as_root => (
            State::Unavailable,
            "no pids cgroup can be made here, and the kernel does not limit root otherwise",
        ),
        (true, true) => (State::Enforced, "processes of the user namespace"),
        (true, false) => (State::Degraded, "counted together with all processes of the user"),
    };
    enforcement.record(Measure::ProcessLimit, state, detail);
}

/// Lowers a limit, for good. A limit that is lower already stays.
fn set(resource: Resource, limit: u64) -> bool {
    let limit = getrlimit(resource).maximum.map_or(limit, |maximum| maximum.min(limit));
    setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) }).is_ok()
}

fn kernel_version() -> (u32, u32) {
    parse_version(&rustix::system::uname().release().to_string_lossy())
}

fn parse_version(release: &str) -> (u32, u32) {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(parse_version("6.18.44-fc-v445"), (6, 18));
        assert_eq!(parse_version("6.1.0-30-amd64"), (6, 1));
        assert_eq!(parse_version("5.10-rc1"), (5, 10));
        assert_eq!(parse_version("strange"), (0, 0));
        assert!(parse_version("6.2.0") < OWN_PID_MAX && parse_version("7.0") > OWN_PID_MAX);
    }
}
