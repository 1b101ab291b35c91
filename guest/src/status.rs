//! Reports the agent's own resource usage.

use std::fs;

use agentiso_proto::{Response, Status};

use crate::{agent::Agent, error::Outcome, kill, sync::locked};

/// Collects the status of the agent and the machine.
pub(crate) fn status(agent: &Agent) -> Outcome<Response> {
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    // `VmRSS` in `status` omits what each thread has not yet added to the total, which may be all of it.
    let mapped = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let myself = std::process::id().cast_signed();
    let zombies =
        kill::processes().iter().filter(|process| process.parent == myself && process.is_dead).count();
    let mount_point = agent.machine().ok().and_then(|machine| locked(&machine.root).mount_point());
    let root = mount_point.and_then(|path| rustix::fs::statvfs(path).ok());
    Ok(Response::Status(Status {
        rss_kib: field(&mapped, "Rss:"),
        open_fds: open_fds(),
        threads: u32::try_from(field(&own, "Threads:")).unwrap_or(u32::MAX),
        zombies: u32::try_from(zombies).unwrap_or(u32::MAX),
        running: u32::try_from(agent.running.count()).unwrap_or(u32::MAX),
        mem_total_kib: field(&memory, "MemTotal:"),
        mem_available_kib: field(&memory, "MemAvailable:"),
        root_bytes: root.as_ref().map_or(0, |root| root.f_blocks.saturating_mul(root.f_frsize)),
        root_free_bytes: root.as_ref().map_or(0, |root| root.f_bavail.saturating_mul(root.f_frsize)),
    }))
}

/// Number of open descriptors, without the one used for counting.
fn open_fds() -> u32 {
    let count = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX)
}

fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_field_is_matched_by_its_whole_name() {
        let text = "MemTotal:      100 kB\nMemAvailable:   42 kB\nOdd:\n";
        assert_eq!((field(text, "MemTotal:"), field(text, "MemAvailable:")), (100, 42));
        assert_eq!((field(text, "Odd:"), field(text, "Missing:")), (0, 0));
    }
}
