//! Kills a command and all its descendants.

use std::{collections::HashSet, fs, thread, time::Duration};

use rustix::process::{Pid, Signal};

use crate::{groups::Group, running::MARKER};

/// Rounds of listing and killing before giving up; about ten seconds in all.
const ROUNDS: u32 = 500;
/// Pause between rounds, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// One process, as listed in `/proc`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// A zombie.
    pub(crate) is_dead: bool,
    /// A kernel thread.
    pub(crate) is_kernel: bool,
}

/// Kills the members of the command's session, its descendants, and all processes with its marker, until none is left.
/// Kills everything in the command's cgroup first, if it has one: a daemon may have cut all other ties. The command's
/// own process must not have been waited for yet.
pub(crate) fn kill_tree(command: Pid, marker: &str, group: Option<&Group>) {
    if let Some(group) = group {
        group.kill();
    }
    let mark = format!("{MARKER}={marker}");
    let mut pause = FIRST_PAUSE;
    for _ in 0..ROUNDS {
        let members = members(command.as_raw_nonzero().get(), mark.as_bytes());
        if members.is_empty() {
            return;
        }
        for pid in members.into_iter().filter_map(Pid::from_raw) {
            // It may have exited by itself.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Lists all processes.
pub(crate) fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(|pid| parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

fn members(command: i32, mark: &[u8]) -> Vec<i32> {
    let myself = std::process::id().cast_signed();
    let all = processes();
    let mut found: HashSet<i32> = all
        .iter()
        .filter(|process| process.pid == command || process.session == command || is_marked(process, mark))
        .map(|process| process.pid)
        .collect();
    loop {
        let before = found.len();
        found.extend(
            all.iter()
                .filter(|process| found.contains(&process.parent))
                .map(|process| process.pid)
                .collect::<Vec<_>>(),
        );
        if found.len() == before {
            break;
        }
    }
    all.iter()
        .filter(|process| !process.is_dead && process.pid != myself && found.contains(&process.pid))
        .map(|process| process.pid)
        .collect()
}

fn is_marked(process: &Process, mark: &[u8]) -> bool {
    if process.is_dead || process.is_kernel {
        return false;
    }
    let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|variable| variable == mark)
}

/// Parses `/proc/PID/stat`. The process name is in parentheses and may contain any character.
fn parse(stat: &[u8]) -> Option<Process> {
    const KERNEL_THREAD: u32 = 0x0020_0000;
    let open = stat.iter().position(|&byte| byte == b'(')?;
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let pid = std::str::from_utf8(stat.get(..open)?).ok()?.trim().parse().ok()?;
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let flags: u32 = fields.nth(2)?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        session,
        is_dead: matches!(state, "Z" | "X" | "x"),
        is_kernel: flags & KERNEL_THREAD != 0,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_parsed() {
        let line = b"42 (a) S 1 (b) ) Z 7 42 41 0 -1 4194304 0 0\n";
        let process = parse(line).unwrap();
        assert_eq!((process.pid, process.parent, process.session), (42, 7, 41));
        assert!(process.is_dead && !process.is_kernel);
    }

    #[test]
    fn kernel_threads_are_recognised_by_their_flag() {
        assert!(parse(b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0\n").unwrap().is_kernel);
    }

    #[test]
    fn the_table_contains_this_process() {
        let myself = std::process::id().cast_signed();
        assert!(processes().iter().any(|process| process.pid == myself && !process.is_dead));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(line in any::<Vec<u8>>()) {
            let _ = parse(&line);
        }
    }
}
