//! The processes below this one.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};

/// More generations than a command can have with the processes it may start; only a process that makes new ones faster
/// than they are killed gets that far.
const MAX_ROUNDS: usize = 10_000;

/// All living descendants of this process, parents first. Empty where the kernel does not list children.
pub(super) fn descendants() -> Vec<Pid> {
    let mut found = Vec::new();
    let mut open = vec![getpid()];
    while let Some(pid) = open.pop() {
        let children = children_of(pid);
        open.extend(&children);
        found.extend(children);
    }
    found
}

/// Sends a signal to every descendant.
pub(super) fn signal_descendants(signal: Signal) {
    for pid in descendants() {
        // One that has ended needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// Kills every descendant and waits for it. This process must be a subreaper, so that orphans become its children. False if
/// there are still some.
pub(super) fn end_descendants() -> bool {
    for _ in 0..MAX_ROUNDS {
        signal_descendants(Signal::KILL);
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
    false
}

fn children_of(pid: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let lists = threads.into_iter().flatten().flatten();
    let texts = lists.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = texts.flat_map(|text| text.split_whitespace().map(str::parse).collect::<Vec<_>>());
    pids.filter_map(|pid| pid.ok().and_then(Pid::from_raw)).collect()
}
