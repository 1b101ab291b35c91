//! A sandbox that stays.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::command::Command;
use crate::enforcement::Enforcement;
use crate::error::JailError;
use crate::launcher::{Sandbox, channel_pair};
use crate::running::Running;
use crate::stdio::Stdio;
use crate::wire::{Exec, send};

/// A sandbox in which commands are started one after the other or at the same time. They share its files, processes and
/// network. When it is dropped, everything in it is killed.
#[derive(Debug)]
pub struct Session {
    sandbox: Sandbox,
    enforcement: Arc<Enforcement>,
    /// Frames of several threads must not mix.
    sending: Mutex<()>,
}

impl Session {
    pub(crate) fn new(sandbox: Sandbox, enforcement: Enforcement) -> Self {
        Self { sandbox, enforcement: Arc::new(enforcement), sending: Mutex::new(()) }
    }

    /// What the kernel enforces.
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// Starts a command in the sandbox.
    pub fn exec(&self, command: &Command, stdio: Stdio) -> Result<Running, JailError> {
        command.check(true)?;
        let (ours, theirs) = channel_pair()?;
        let Stdio { stdin, stdout, stderr } = stdio;
        let fds = [theirs.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        {
            let _one_at_a_time = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
            send(self.sandbox.channel(), &Exec { command: command.clone() }, &fds).map_err(|cause| {
                match cause.kind() {
                    std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset => JailError::Lost,
                    _ => JailError::Helper { doing: "send the command to the sandbox", cause },
                }
            })?;
        }
        drop((theirs, stdin, stdout, stderr));
        Running::started(ours, self.enforcement.clone(), self.sandbox.group(), None, command)
    }

    /// Whether it has ended by itself, for example because a command killed the process that watches it.
    pub fn has_ended(&self) -> bool {
        let channel = self.sandbox.channel();
        let mut channel = [PollFd::new(&channel, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_closed = |channel: &PollFd<'_>| channel.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        poll(&mut channel, Some(&now)).is_ok() && is_closed(&channel[0])
    }

    /// Ends everything in the sandbox.
    pub fn close(self) {
        drop(self);
    }
}
