//! Which processes to kill, and when.

use std::path::Path;
use std::time::Duration;

use agentiso_testing::Dice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The targets of a strike.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Victim {
    Nobody,
    Daemon,
    Machine,
    Both,
}

/// One strike.
#[derive(Clone, Debug)]
pub struct Strike {
    pub victim: Victim,
    /// Delay after the start of the command.
    pub after: Duration,
    /// If both are killed: whether the machine comes first.
    pub machine_first: bool,
    /// Selects one of the machines running at that time.
    pub which: u64,
    /// The QEMU that was killed.
    pub killed: Option<u32>,
}

impl Strike {
    pub fn none() -> Self {
        Self { victim: Victim::Nobody, after: Duration::ZERO, machine_first: false, which: 0, killed: None }
    }

    /// A strike at a random time within the typical duration of a command.
    pub fn within(typical: Duration, dice: &mut Dice) -> Self {
        let victim = match dice.below(100) {
            0..15 => Victim::Nobody,
            15..60 => Victim::Daemon,
            60..82 => Victim::Machine,
            _ => Victim::Both,
        };
        let span = u64::try_from(typical.as_micros()).unwrap_or(u64::MAX);
        Self {
            victim,
            after: Duration::from_micros(dice.below(span + span / 10 + 1)),
            machine_first: dice.chance(50),
            which: dice.roll(),
            killed: None,
        }
    }

    pub fn hits_daemon(&self) -> bool {
        matches!(self.victim, Victim::Daemon | Victim::Both)
    }

    /// The QEMU to kill, if any.
    pub fn choose_machine(&mut self, home: &Path) -> Option<u32> {
        if matches!(self.victim, Victim::Machine | Victim::Both) {
            let qemus = qemus(home);
            self.killed = qemus.get(usize::try_from(self.which).unwrap_or(0) % qemus.len().max(1)).copied();
        }
        self.killed
    }
}

/// The QEMUs of a home: the processes with one of its files on their command line.
pub fn qemus(home: &Path) -> Vec<u32> {
    let below = format!("{}/", home.display());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let program = line.split(|&byte| byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(program).contains("qemu-system")
                && String::from_utf8_lossy(&line).contains(&below)
        })
        .collect();
    found.sort_unstable();
    found
}

/// Kills a process and waits until it is gone.
pub fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
    // It may have exited by itself.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if pidfd_send_signal(&process, Signal::KILL).is_ok() {
        let mut watched = [PollFd::new(&process, PollFlags::IN)];
        let limit = Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_eq!(poll(&mut watched, Some(&limit)), Ok(1), "{pid:?} was killed and does not exit");
    }
}
