//! Whom to kill, and when.

use std::path::Path;
use std::time::Duration;

use agentiso_testing::Dice;
use rustix::process::{Pid, Signal, kill_process};

/// Whom a strike hits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Victim {
    Nobody,
    Agentiso,
    Machine,
    Both,
}

/// One blow.
#[derive(Clone, Debug)]
pub struct Strike {
    pub victim: Victim,
    /// How long after the command's start.
    pub after: Duration,
    /// Of both, whom first.
    pub machine_first: bool,
    /// Which of the machines there are then.
    pub which: u64,
    /// The QEMU that was killed.
    pub killed: Option<u32>,
}

impl Strike {
    pub fn none() -> Self {
        Self { victim: Victim::Nobody, after: Duration::ZERO, machine_first: false, which: 0, killed: None }
    }

    /// A blow somewhere within what a command usually takes.
    pub fn within(typical: Duration, dice: &mut Dice) -> Self {
        let victim = match dice.below(100) {
            0..15 => Victim::Nobody,
            15..60 => Victim::Agentiso,
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

    pub fn hits_agentiso(&self) -> bool {
        matches!(self.victim, Victim::Agentiso | Victim::Both)
    }

    /// The QEMU to kill, if one is to be killed and there is one.
    pub fn choose_machine(&mut self, home: &Path) -> Option<u32> {
        if matches!(self.victim, Victim::Machine | Victim::Both) {
            let qemus = qemus(home);
            self.killed = qemus.get(usize::try_from(self.which).unwrap_or(0) % qemus.len().max(1)).copied();
        }
        self.killed
    }
}

/// The QEMUs of a home: the processes that have one of its files on their command line.
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

pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
