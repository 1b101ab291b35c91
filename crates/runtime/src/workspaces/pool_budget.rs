//! How much memory pooled machines may use on this host or in this container.
//!
//! A paused machine uses far less memory than its size, but it grows to its size once it is used. So the sizes are
//! counted, and a host that is short of memory keeps no machines ready.

use std::fs;
use std::io;

use agentiso_config::Pool;

/// A host with less memory, in MiB, keeps no machines ready unless it is told to.
const SMALL_HOST_MB: u64 = 12 * 1024;
/// The share of the host's memory that machines of the pool may have, and the most MiB.
const SHARE: u64 = 8;
const MOST_MB: u64 = 2048;
/// With less than this share of the host's memory available no machine is added to the pool.
const ENOUGH: u64 = 4;
/// With less than this share available the machines of the pool are ended.
const SHORT: u64 = 8;

/// The memory that this process may use, in MiB: that of the host, or of its container.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HostMemory {
    /// All of it.
    pub total_mb: u64,
    /// What could be used without anything being paged out.
    pub available_mb: u64,
}

impl HostMemory {
    /// The memory of the host, without limits.
    pub(super) fn read() -> io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "procfs is memory: reading it waits for no device")]
        let text = fs::read_to_string("/proc/meminfo")?;
        Self::parse(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo has no memory in it"))
    }

    fn parse(text: &str) -> Option<Self> {
        let mb = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
        };
        Some(Self { total_mb: mb("MemTotal:")?, available_mb: mb("MemAvailable:")? })
    }
}

/// What the pool may do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Budget {
    /// Which machines it may have.
    pub allowed: Allowed,
    /// Why, for a person.
    pub why: String,
}

/// Which machines the pool may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Allowed {
    /// None.
    Nothing,
    /// The machines it has, up to this total in MiB, and no new ones.
    Present(u32),
    /// Machines with this total memory in MiB.
    Memory(u32),
}

/// Decides what the pool may do on a host. The memory is unknown where it could not be read.
pub(crate) fn budget(pool: &Pool, host: Option<HostMemory>) -> Budget {
    let decided = |allowed, why: String| Budget { allowed, why };
    if pool.size == 0 {
        return decided(Allowed::Nothing, "pool.size is 0".to_owned());
    }
    if pool.memory_mb > 0 {
        let why = format!("pool.memory_mb allows {} MiB", pool.memory_mb);
        return decided(Allowed::Memory(pool.memory_mb), why);
    }
    let Some(HostMemory { total_mb, available_mb }) = host else {
        return decided(Allowed::Nothing, "the host's memory could not be read".to_owned());
    };
    if total_mb < SMALL_HOST_MB {
        let why = format!("the host has {total_mb} MiB of memory, less than {SMALL_HOST_MB}");
        return decided(Allowed::Nothing, why);
    }
    // At most 2048.
    let memory_mb = (total_mb / SHARE).min(MOST_MB) as u32;
    let of_host = format!("{available_mb} of the host's {total_mb} MiB of memory are available");
    if available_mb < total_mb / SHORT {
        return decided(Allowed::Nothing, format!("only {of_host}"));
    }
    if available_mb < total_mb / ENOUGH {
        return decided(Allowed::Present(memory_mb), format!("only {of_host}, so none is added"));
    }
    decided(Allowed::Memory(memory_mb), format!("at most {memory_mb} MiB; {of_host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto() -> Pool {
        Pool { size: 2, memory_mb: 0 }
    }

    fn on(total_mb: u64, available_mb: u64) -> Allowed {
        budget(&auto(), Some(HostMemory { total_mb, available_mb })).allowed
    }

    #[test]
    fn the_kernels_figures_are_read() {
        let text = "MemTotal:       24683520 kB\nMemFree:  1024 kB\nMemAvailable:   12341760 kB\n";
        let read = HostMemory::parse(text);
        assert_eq!(read, Some(HostMemory { total_mb: 24_105, available_mb: 12_052 }));
        assert_eq!(HostMemory::parse("MemTotal: 5 kB\n"), None);
        assert_eq!(HostMemory::parse("MemTotal: many kB\nMemAvailable: 5 kB\n"), None);
        assert!(HostMemory::read().is_ok());
    }

    #[test]
    fn small_hosts_keep_nothing_ready() {
        for total_mb in [512, 4096, 7800, SMALL_HOST_MB - 1] {
            assert_eq!(on(total_mb, total_mb), Allowed::Nothing, "{total_mb}");
        }
        let told = Pool { memory_mb: 512, ..auto() };
        let small = HostMemory { total_mb: 4096, available_mb: 100 };
        assert_eq!(budget(&told, Some(small)).allowed, Allowed::Memory(512));
    }

    #[test]
    fn larger_hosts_give_a_share() {
        assert_eq!(on(SMALL_HOST_MB, SMALL_HOST_MB), Allowed::Memory(1536));
        assert_eq!(on(15_600, 12_000), Allowed::Memory(1950));
        assert_eq!(on(512 * 1024, 500 * 1024), Allowed::Memory(2048));
    }

    #[test]
    fn a_host_that_runs_short_adds_nothing_and_then_gives_everything_back() {
        assert_eq!(on(16_000, 4000), Allowed::Memory(2000));
        assert_eq!(on(16_000, 3999), Allowed::Present(2000));
        assert_eq!(on(16_000, 2000), Allowed::Present(2000));
        assert_eq!(on(16_000, 1999), Allowed::Nothing);
    }

    #[test]
    fn what_is_switched_off_or_unknown_keeps_nothing_ready() {
        let much = Some(HostMemory { total_mb: 64_000, available_mb: 60_000 });
        assert_eq!(budget(&Pool { size: 0, memory_mb: 4096 }, much).allowed, Allowed::Nothing);
        assert_eq!(budget(&auto(), None).allowed, Allowed::Nothing);
    }
}
