//! Whether a process still runs, by pidfd and by `/proc`.
//!
//! A process id alone can be reused, so a process is identified by its id and its start time.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that becomes readable when the process ends.
pub(super) fn watch(pid: u32) -> io::Result<AsyncFd<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("not a process id"))?;
    let fd = pidfd_open(pid, PidfdFlags::NONBLOCK).or_else(|_| pidfd_open(pid, PidfdFlags::empty()))?;
    // SAFETY: an `OwnedFd` names the same open descriptor for as long as it lives, and the `AsyncFd` owns it.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(watched?)
}

/// Waits until a process has ended, whether or not it is our child. Returns at once if it cannot be watched.
pub async fn process_end(pid: u32) {
    if let Ok(watched) = watch(pid) {
        let _ = watched.readable().await;
    }
}

/// When a process started, in clock ticks since boot; `None` if there is no such process or only a zombie of it.
#[expect(clippy::disallowed_methods, reason = "procfs is memory: reading it waits for no device")]
pub fn start_time(pid: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => return Ok(None),
        other => other?,
    };
    // The program name in parentheses may contain anything, so fields are counted after it.
    let mut fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ')).into_iter().flatten();
    let state = fields.next().unwrap_or("Z");
    let threads = fields.nth(16).and_then(|count| count.parse::<u32>().ok());
    let started = fields.nth(1).and_then(|ticks| ticks.parse().ok());
    // Until its last thread has exited, the process keeps its files open and locked.
    let over = matches!(state, "Z" | "X") && threads.is_none_or(|count| count <= 1);
    Ok(started.filter(|_| !over))
}
