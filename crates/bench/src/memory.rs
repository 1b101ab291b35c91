//! Host memory used by idle machines.

use std::fs;
use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};
use agentiso_vmm::Accel;

use crate::execs::run;
use crate::report::{Measurement, median, request};
use agentiso_runtime::Installation;

const MACHINES: u64 = 20;
/// The bound in MiB of private memory per machine with KVM.
const MOST_KVM: f64 = 24.0;
/// The bound with TCG. The translated code of a start and a first command takes 14 to 16 MiB, and its tables 3 MiB: 8,700
/// blocks of the kernel and 3,500 of programs for `true` alone. Without huge pages the total would be 3 MiB less, and
/// everything 5 % slower.
const MOST_TCG: f64 = 40.0;

/// The free memory of the host is not compared before and after, because other processes use it too.
pub(super) async fn measure(
    installation: &Installation,
    accel: Accel,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    progress.step("Measuring twenty idle machines", Some(MACHINES));
    let mut machines = Vec::new();
    for _ in 0..MACHINES {
        let running = installation.start(&request(installation, false)?, progress).await?;
        run(&running.machine, &["/bin/true"]).await?;
        machines.push(running);
        progress.advance(1);
    }
    progress.done("");
    let taken: Result<Vec<Own>, Failure> =
        machines.iter().map(|running| Own::of(running.machine.pid())).collect();
    for running in machines {
        running.destroy().await;
    }
    let taken = taken?;
    let mib =
        |part: fn(&Own) -> u64| -> Vec<f64> { taken.iter().map(|own| part(own) as f64 / 1024.0).collect() };
    let most = if accel == Accel::Kvm { MOST_KVM } else { MOST_TCG };
    let all = mib(|own| own.anonymous_kib + own.tables_kib);
    let mut rows = vec![
        Measurement::new(format!("host memory of each of {MACHINES} idle machines"), "MiB", &all)
            .at_most(most),
    ];
    let code = mib(|own| own.code_kib);
    if median(&code) > 0.0 {
        rows.push(Measurement::new("  of which translated code", "MiB", &code));
    }
    Ok(rows)
}

/// The private memory of a process, in KiB.
#[derive(Debug, Eq, PartialEq)]
struct Own {
    /// Anonymous pages.
    anonymous_kib: u64,
    /// Executable anonymous pages.
    code_kib: u64,
    /// Page tables.
    tables_kib: u64,
}

impl Own {
    fn of(pid: u32) -> Result<Self, Failure> {
        let read = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            fs::read_to_string(&path)
                .map_err(|error| Failure::new(Code::of_io(&error), format!("could not read {path}: {error}")))
        };
        Ok(Self::parse(&read("smaps")?, &read("status")?))
    }

    fn parse(maps: &str, status: &str) -> Self {
        let kib = |line: &str, name: &str| -> u64 {
            let value = line.strip_prefix(name).and_then(|rest| rest.split_whitespace().next());
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        let mut own = Self { anonymous_kib: 0, code_kib: 0, tables_kib: 0 };
        let mut is_code = false;
        for line in maps.lines() {
            // Only the first line of a mapping has its permissions.
            let mut words = line.split_whitespace();
            if let (Some(range), Some(access)) = (words.next(), words.next())
                && range.contains('-')
            {
                is_code = access.starts_with("rwx");
            }
            let found = kib(line, "Anonymous:");
            own.anonymous_kib += found;
            own.code_kib += if is_code { found } else { 0 };
        }
        own.tables_kib = status.lines().map(|line| kib(line, "VmPTE:")).sum();
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_to_itself_is_summed() {
        let maps = "7f00-7f10 rw-p 00000000 00:00 0 \nSize:   2048 kB\nRss:   8 kB\nAnonymous:    8 kB\n\
                    7f20-7f30 rwxp 00000000 00:00 0 \nAnonymous:    100 kB\n\
                    7f40-7f50 r-xp 00000000 08:01 7 /usr/bin/qemu\nRss: 900 kB\nAnonymous:    0 kB\n\
                    7f60-7f70 rw-p 00000000 08:01 7 /base\nAnonymous:    16 kB\n";
        let own = Own::parse(maps, "Name:\tqemu\nVmPTE:\t     44 kB\n");
        assert_eq!(own, Own { anonymous_kib: 124, code_kib: 100, tables_kib: 44 });
    }

    #[test]
    fn this_process_has_memory_of_its_own() {
        assert!(Own::of(std::process::id()).unwrap().anonymous_kib > 0);
    }
}
