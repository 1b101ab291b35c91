//! A command that runs in a sandbox.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::cgroup::Group;
use crate::command::Command;
use crate::enforcement::Enforcement;
use crate::error::JailError;
use crate::launcher::{Sandbox, explain};
use crate::wire::{Control, Report, receive, send};

/// A command in a sandbox. When it is dropped, the command and everything it started is killed.
#[derive(Debug)]
pub struct Running {
    channel: OwnedFd,
    enforcement: Arc<Enforcement>,
    group: Option<Arc<Group>>,
    /// Kills by the memory limit before this command began.
    oom_kills: u64,
    /// The sandbox, if it is this command's own.
    sandbox: Option<Sandbox>,
    exit: Option<Exit>,
    renames: Option<io::Result<RenameNotifier>>,
}

/// What the supervisor of a command's renames needs.
#[derive(Debug)]
pub struct RenameNotifier {
    /// The descriptor of seccomp(2)'s user notifications: the kernel asks about `rename`, `renameat` and `renameat2`. It is
    /// hung up when the last process of the command has ended. When it is closed before, renames fail with `ENOSYS`.
    pub listener: OwnedFd,
    /// The root directory as the command sees it, opened with `O_PATH` before the program ran.
    pub root: OwnedFd,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Exit {
    /// The exit code or the signal of the program.
    pub end: End,
    /// Whether it was ended because of [`Command::timeout`].
    pub timed_out: bool,
    /// Whether it was ended by [`Running::kill`].
    pub killed: bool,
    /// Whether a process was killed because of the memory limit. In a session it may be one of another command that ran at
    /// the same time.
    pub oom_killed: bool,
    /// What it used.
    pub usage: Usage,
}

/// The end of a program.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It exited with a code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

/// What a command and its descendants used.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Usage {
    /// Processor time in programs.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The most memory that one process had resident, in bytes.
    pub max_rss: u64,
}

impl Running {
    /// Waits until the program runs.
    pub(crate) fn started(
        channel: OwnedFd,
        enforcement: Arc<Enforcement>,
        group: Option<Arc<Group>>,
        sandbox: Option<Sandbox>,
        command: &Command,
    ) -> Result<Self, JailError> {
        let oom_kills = group.as_ref().map_or(0, |group| group.oom_kills());
        let mut renames = None;
        loop {
            match receive::<Report>(&channel) {
                Ok(Some((Report::Supervised, fds))) => {
                    let Ok([listener, root]) = <[OwnedFd; 2]>::try_from(fds) else {
                        return Err(JailError::Lost);
                    };
                    renames = Some(Ok(RenameNotifier { listener, root }));
                }
                Ok(Some((Report::NotSupervised { error }, _))) => {
                    renames = Some(Err(io::Error::from_raw_os_error(error)));
                }
                Ok(Some((Report::Started, _))) => {
                    return Ok(Self { channel, enforcement, group, oom_kills, sandbox, exit: None, renames });
                }
                Ok(Some((Report::Failed(failure), _))) => return Err(explain(failure, Some(command))),
                Ok(_) => return Err(JailError::Lost),
                Err(cause) => return Err(JailError::Helper { doing: "read from the sandbox", cause }),
            }
        }
    }

    /// With [`crate::Spec::supervised_renames`], what the supervisor of the command's renames needs, or why the kernel does
    /// not offer it; renames are then made without a question. Until the questions are answered, the command waits in its
    /// first rename. `None` otherwise, and from the second call on.
    pub fn take_rename_notifier(&mut self) -> Option<io::Result<RenameNotifier>> {
        self.renames.take()
    }

    /// What the kernel enforces.
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// Waits for the end of the command, and of everything it started.
    pub fn wait(&mut self) -> Result<Exit, JailError> {
        loop {
            if let Some(exit) = self.wait_for(None)? {
                return Ok(exit);
            }
        }
    }

    /// Waits for the end of the command, but not longer than `deadline`. The command goes on after that.
    pub fn wait_until(&mut self, deadline: Instant) -> Result<Option<Exit>, JailError> {
        self.wait_for(Some(deadline))
    }

    /// Sends a signal to the process group of the command. A command that has ended ignores it.
    pub fn signal(&self, signal: i32) -> Result<(), JailError> {
        self.control(Control::Signal(signal))
    }

    /// Ends the command: SIGTERM to everything it started, and SIGKILL to what is left after `grace`. Wait for the end with
    /// [`Running::wait`].
    pub fn kill(&self, grace: Duration) -> Result<(), JailError> {
        self.control(Control::Kill { grace })
    }

    fn control(&self, control: Control) -> Result<(), JailError> {
        match send(&self.channel, &control, &[]) {
            // The command has ended.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent.map_err(|cause| JailError::Helper { doing: "write to the sandbox", cause }),
        }
    }

    fn wait_for(&mut self, deadline: Option<Instant>) -> Result<Option<Exit>, JailError> {
        if let Some(exit) = self.exit {
            return Ok(Some(exit));
        }
        if !readable(self.channel.as_fd(), deadline)
            .map_err(|error| JailError::Helper { doing: "wait for the sandbox", cause: error.into() })?
        {
            return Ok(None);
        }
        let report = receive::<Report>(&self.channel);
        // Its mounts are gone and its memory is accounted for when its init has ended.
        drop(self.sandbox.take());
        let oom_killed = self.group.as_ref().is_some_and(|group| group.oom_kills() > self.oom_kills);
        let exit = match report {
            Ok(Some((Report::Ended { end, timed_out, killed, usage }, _))) => {
                Exit { end, timed_out, killed, oom_killed, usage }
            }
            // The limit applies to init too.
            Ok(None) if oom_killed => {
                let end = End::Signal(libc::SIGKILL);
                Exit { end, timed_out: false, killed: false, oom_killed, usage: Usage::default() }
            }
            Ok(_) => return Err(JailError::Lost),
            Err(cause) => return Err(JailError::Helper { doing: "read from the sandbox", cause }),
        };
        self.exit = Some(exit);
        Ok(Some(exit))
    }
}

impl AsFd for Running {
    /// Readable when the command has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Waits until there is something to read; false if the deadline comes first.
fn readable(fd: BorrowedFd<'_>, deadline: Option<Instant>) -> Result<bool, Errno> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error),
        }
    }
}
