//! Watching one command until it has ended.
//!
//! ```text
//!             signal, kill, timeout            grace is over
//!  Running ──────────────────────► Ending ───────────────────► Killed
//!     │ the program ends              │ ends                      │ ends
//!     └───────────────────────────────┴───────────────────────────┴──► leftovers killed and reaped ─► Ended reported
//! ```
//!
//! Sad paths: when the channel closes, the caller has gone, and everything is killed at once. Processes that cannot be killed
//! (in an uninterruptible wait) delay the end, not the report of anything else.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait};

use super::execute::{self, Surroundings};
use super::init::Ready;
use super::tree::{end_descendants, signal_descendants};
use crate::command::{Command, Leftovers};
use crate::kernel::process::check;
use crate::running::{End, Usage};
use crate::wire::{Control, Failure, Report, receive, send};

/// Which processes end with a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Scope {
    /// All of the pid namespace, of which this process is the init.
    Namespace,
    /// The descendants of this process.
    Descendants,
}

/// How a command is ended before its time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Ending {
    timed_out: bool,
    killed: bool,
    /// When SIGKILL follows.
    kill_at: Option<Instant>,
}

/// Starts a command, watches it and reports on `channel`.
pub(super) fn run(ready: &Ready, command: &Command, stdio: [OwnedFd; 3], channel: &OwnedFd) {
    let report = |report: Report| {
        // A caller that has gone needs no report, and its absence is noticed by the next poll.
        let _ = send(channel, &report, &[]);
    };
    if ready.scope == Scope::Descendants
        && let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
    {
        return report(Report::Failed(Failure::SetUp {
            step: "adopt orphans".to_owned(),
            error: error.raw_os_error(),
        }));
    }
    let signals = match child_signals() {
        Ok(signals) => signals,
        Err(error) => {
            let step = "watch processes".to_owned();
            return report(Report::Failed(Failure::SetUp { step, error: error.raw_os_error() }));
        }
    };
    let renames_to = ready.supervised_renames.then_some(channel);
    let around = match &ready.paths {
        Some(paths) => paths.surroundings(command, ready.of_command.as_ref(), renames_to),
        None => Surroundings {
            cwd: command.cwd.clone(),
            variables: Vec::new(),
            restrictions: ready.of_command.as_ref(),
            renames_to,
        },
    };
    let child = match execute::start(command, stdio, &around) {
        Ok(child) => child,
        Err(failure) => return report(Report::Failed(failure)),
    };
    report(Report::Started);
    let mut watched = Watched { child, scope: ready.scope, channel, signals, ending: Ending::default() };
    let Some(status) = watched.watch(command) else {
        ready.scope.end_all();
        return;
    };
    let is_over = command.leftovers == Leftovers::Keep || ready.scope.end_all();
    if is_over {
        let Ending { timed_out, killed, .. } = watched.ending;
        report(Report::Ended { end: end(status), timed_out, killed, usage: usage() });
    }
}

struct Watched<'a> {
    child: Pid,
    scope: Scope,
    channel: &'a OwnedFd,
    signals: File,
    ending: Ending,
}

impl Watched<'_> {
    /// Waits for the end of the command. `None` if the caller has gone.
    fn watch(&mut self, command: &Command) -> Option<WaitStatus> {
        let mut deadline = command.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(status) = self.reap() {
                return Some(status);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                deadline = None;
                self.ending.timed_out = true;
                self.terminate(command.grace);
            }
            if self.ending.kill_at.is_some_and(|at| at <= now) {
                self.ending.kill_at = None;
                self.scope.signal(self.child, Signal::KILL);
            }
            let next = [deadline, self.ending.kill_at].into_iter().flatten().min();
            let [channel, _] = self.poll(next)?;
            if channel {
                match receive::<Control>(self.channel) {
                    Ok(Some((control, _))) => self.obey(control),
                    _ => return None,
                }
            }
        }
    }

    /// Waits for a message, a child or a time, and returns what there is to read. `None` if polling fails.
    fn poll(&mut self, until: Option<Instant>) -> Option<[bool; 2]> {
        let timeout = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        let mut fds = [
            PollFd::new(self.channel, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let ready = fds.map(|fd| !fd.revents().is_empty());
        if ready[1] {
            // One read empties what children have caused; how many there were is found by waiting.
            let mut buffer = [0; size_of::<libc::signalfd_siginfo>()];
            let _ = self.signals.read(&mut buffer);
        }
        Some(ready)
    }

    /// Reaps whatever has ended; returns how the command did, if it has.
    fn reap(&self) -> Option<WaitStatus> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.child => return Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn obey(&mut self, control: Control) {
        match control {
            Control::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    // One that has ended needs no signal.
                    let _ = kill_process_group(self.child, signal);
                }
            }
            Control::Kill { grace } => {
                self.ending.killed = true;
                self.terminate(grace);
            }
        }
    }

    fn terminate(&mut self, grace: Duration) {
        self.scope.signal(self.child, Signal::TERM);
        // A stopped process handles signals only when it continues.
        self.scope.signal(self.child, Signal::CONT);
        let at = Instant::now().checked_add(grace);
        self.ending.kill_at = match (self.ending.kill_at, at) {
            (Some(earlier), Some(at)) => Some(earlier.min(at)),
            (earlier, at) => earlier.or(at),
        };
    }
}

impl Scope {
    fn signal(self, child: Pid, signal: Signal) {
        match self {
            // SAFETY: this call takes two numbers. It signals all of the namespace but its init.
            Self::Namespace => unsafe {
                libc::kill(-1, signal.as_raw());
            },
            Self::Descendants => {
                let _ = kill_process_group(child, signal);
                let _ = kill_process(child, signal);
                signal_descendants(signal);
            }
        }
    }

    /// Kills and reaps all; false if some are left.
    fn end_all(self) -> bool {
        if self == Self::Descendants {
            return end_descendants();
        }
        loop {
            // SAFETY: this call takes two numbers.
            unsafe { libc::kill(-1, libc::SIGKILL) };
            match wait(WaitOptions::empty()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }
}

/// A descriptor that is readable when a child has ended. SIGCHLD is blocked from here on.
pub(super) fn child_signals() -> Result<File, Errno> {
    // SAFETY: the set is initialised before it is used, and the descriptor is new.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()).into())?;
        let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into())?;
        Ok(File::from(OwnedFd::from_raw_fd(i32::try_from(fd).map_err(|_| Errno::BADF)?)))
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        // Rounded up, so that a deadline has passed when the wait ends.
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

fn end(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Code(code),
        (None, Some(signal)) => End::Signal(signal),
        // Only ends are waited for.
        (None, None) => End::Signal(0),
    }
}

/// What all reaped descendants have used.
fn usage() -> Usage {
    // SAFETY: all bytes zero is a valid value, and the kernel fills it.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut used);
        used
    };
    let time = |time: libc::timeval| {
        let micros = u64::try_from(time.tv_usec).unwrap_or(0);
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0)) + Duration::from_micros(micros)
    };
    let max_rss = u64::try_from(used.ru_maxrss).unwrap_or(0).saturating_mul(1024);
    Usage { user: time(used.ru_utime), system: time(used.ru_stime), max_rss }
}
