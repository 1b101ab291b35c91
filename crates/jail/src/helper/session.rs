//! The init of a sandbox that stays: starts commands as they are asked for.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, getpid, wait};

use super::init::Ready;
use super::supervise::{self, child_signals};
use super::tree::end_descendants;
use crate::kernel::process::{exit_now, fork};
use crate::wire::{Exec, Failure, Report, receive, send};

/// Serves a session until its caller closes the channel. Each command gets a supervisor, which adopts the command's orphans.
pub(super) fn serve(ready: &Ready, channel: &OwnedFd) {
    let Ok(mut signals) = child_signals() else { return };
    // Without a pid namespace this is not the init of orphans, unless it adopts them.
    if ready.of_command.is_some() && rustix::process::set_child_subreaper(Some(getpid())).is_err() {
        return;
    }
    let mut supervisors = Vec::new();
    loop {
        if !reap(&mut supervisors) {
            break;
        }
        let mut fds =
            [PollFd::new(channel, PollFlags::IN), PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break,
        }
        let [message, child] = fds.map(|fd| !fd.revents().is_empty());
        if child {
            let mut buffer = [0; 128];
            // What has ended is found by waiting.
            let _ = signals.read(&mut buffer);
        }
        if message {
            match receive::<Exec>(channel) {
                Ok(Some((exec, fds))) => supervisors.extend(supervisor(ready, &exec, fds)),
                _ => break,
            }
        }
    }
    if ready.of_command.is_some() {
        // Without a pid namespace nothing ends by itself.
        end_descendants();
    }
}

/// Starts the supervisor of a command.
fn supervisor(ready: &Ready, exec: &Exec, fds: Vec<OwnedFd>) -> Option<Pid> {
    let Ok([channel, stdin, stdout, stderr]) = <[OwnedFd; 4]>::try_from(fds) else { return None };
    // SAFETY: init has one thread.
    match unsafe { fork() } {
        Ok(Some(pid)) => Some(pid),
        Ok(None) => {
            supervise::run(ready, &exec.command, [stdin, stdout, stderr], &channel);
            exit_now(0);
        }
        Err(error) => {
            let step = "start another process".to_owned();
            let failed = Report::Failed(Failure::SetUp { step, error: error.raw_os_error() });
            // If the caller has gone the channel of the session says so.
            let _ = send(&channel, &failed, &[]);
            None
        }
    }
}

/// Reaps whatever has ended. False if a supervisor was killed: its command's processes are then unknown, and the session has
/// to end.
fn reap(supervisors: &mut Vec<Pid>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let known = supervisors.len();
                supervisors.retain(|supervisor| *supervisor != pid);
                if supervisors.len() < known && status.exit_status() != Some(0) {
                    return false;
                }
            }
            Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return true,
        }
    }
}
