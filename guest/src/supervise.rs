//! Supervises a running command: one thread polls its output, its input, the host and its exit.
//!
//! Output is read only as fast as its destination accepts it. A timeout, a cancellation and a failed poll kill the
//! command with all its descendants. If the session ends, the command keeps running and its output is discarded. When
//! its process exits, what is in the pipes at that moment is forwarded, even if background processes keep them open.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use agentiso_proto::{Channel, Control, DATA_PAYLOAD, Exit, ExitStatus, Usage};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal},
};

use crate::{
    bell::Bell,
    command_io::CommandIo,
    error::{Outcome, last_errno, refused},
    frames::Scratch,
    groups::Group,
    kill::kill_tree,
    spawn::Child,
    stdin::Stdin,
    stdio::{self, Ours},
};

/// Maximum output that a terminal can buffer.
const TERMINAL_BUFFER: usize = 64 * 1024;
/// Remaining output up to this size is sent together with the exit status.
const SMALL: usize = 16 * 1024;

/// A command and what is needed to supervise it.
pub(crate) struct Supervised<'a> {
    pub(crate) child: Child,
    pub(crate) ours: Ours,
    /// Rung on new input, controls or cancellation.
    pub(crate) bell: &'a Bell,
    pub(crate) marker: &'a str,
    pub(crate) group: Option<&'a Group>,
    pub(crate) started: Instant,
    pub(crate) deadline: Option<Instant>,
}

/// Forwards input and output until the command's process exits, then forwards what is left in the pipes.
pub(crate) fn until_exit(
    io: &dyn CommandIo,
    supervised: Supervised<'_>,
    scratch: &mut Scratch,
) -> Outcome<Exit> {
    let Supervised { child, ours, bell, marker, group, started, deadline } = supervised;
    let is_terminal = ours.is_terminal;
    let mut supervisor = Supervisor {
        io,
        scratch,
        child,
        bell,
        marker,
        group,
        started,
        deadline,
        is_terminal,
        stdin: Stdin::new(ours.stdin, is_terminal),
        outputs: [
            Output { fd: Some(ours.stdout), channel: Channel::Stdout },
            Output { fd: ours.stderr, channel: Channel::Stderr },
        ],
        unheard: false,
        timed_out: false,
        cancelled: false,
    };
    let watched = supervisor.watch();
    if watched.is_err() {
        kill_tree(supervisor.child.pid, marker, group);
    }
    let (status, mut usage) = wait(supervisor.child.pid)?;
    watched?;
    usage.wall_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    supervisor.drain();
    supervisor.stdin.report(io);
    Ok(Exit { status, timed_out: supervisor.timed_out, cancelled: supervisor.cancelled, usage })
}

struct Supervisor<'a> {
    io: &'a dyn CommandIo,
    scratch: &'a mut Scratch,
    child: Child,
    bell: &'a Bell,
    marker: &'a str,
    group: Option<&'a Group>,
    started: Instant,
    deadline: Option<Instant>,
    is_terminal: bool,
    stdin: Stdin,
    outputs: [Output; 2],
    /// The session has ended, so output is discarded.
    unheard: bool,
    timed_out: bool,
    cancelled: bool,
}

struct Output {
    fd: Option<OwnedFd>,
    channel: Channel,
}

/// The result of forwarding a chunk of output.
enum Pumped {
    Some(usize),
    NothingNow,
    Ended,
}

impl Supervisor<'_> {
    fn watch(&mut self) -> Outcome<()> {
        while !self.step()? {}
        Ok(())
    }

    /// Waits for the next event and handles it. Returns whether the command's process has exited.
    fn step(&mut self) -> Outcome<bool> {
        // Keep the order of input, resizes and signals.
        self.stdin.feed(self.io);
        self.obey();
        self.stdin.feed(self.io);
        let room = self.outputs.each_ref().map(|output| self.room(output.channel));
        let mut fds =
            vec![PollFd::new(&self.child.pidfd, PollFlags::IN), PollFd::new(self.bell, PollFlags::IN)];
        let mut listened = [None; 2];
        for (index, output) in self.outputs.iter().enumerate() {
            if let Some(fd) = output.fd.as_ref().filter(|_| room[index] > 0) {
                listened[index] = Some(fds.len());
                fds.push(PollFd::new(fd, PollFlags::IN));
            }
        }
        let awaited = self.stdin.awaited().map(|fd| {
            fds.push(PollFd::new(fd, PollFlags::OUT));
            fds.len() - 1
        });
        let timeout = self.until_deadline();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(refused("waiting for the command", errno)),
        }
        let happened = |index: usize| !fds[index].revents().is_empty();
        let (ended, woken) = (happened(0), happened(1));
        let ready = listened.map(|index| index.is_some_and(happened));
        let taken = awaited.map(|index| fds[index].revents());
        if woken {
            self.bell.silence();
        }
        if let Some(events) = taken {
            self.stdin.happened(events, self.io);
        }
        for index in 0..ready.len() {
            if ready[index] {
                self.pump(index, room[index], false);
            }
        }
        Ok(ended)
    }

    /// Handles cancellation, controls, and the timeout.
    fn obey(&mut self) {
        let signals = self.io.signals();
        self.unheard |= signals.ended;
        for control in signals.controls {
            self.control(control);
        }
        let already = self.timed_out || self.cancelled;
        if !already && self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            self.timed_out = true;
        } else if !already && signals.cancelled {
            self.cancelled = true;
        } else {
            return;
        }
        kill_tree(self.child.pid, self.marker, self.group);
    }

    fn control(&mut self, control: Control) {
        match control {
            Control::Resize { columns, rows } => {
                if let Some(terminal) = self.outputs[0].fd.as_ref().filter(|_| self.is_terminal) {
                    // Setting the size fails if the terminal is closing.
                    let _ = rustix::termios::tcsetwinsize(terminal, stdio::size(columns, rows));
                }
            }
            Control::Signal(number) => {
                let Some(signal) = Signal::from_named_raw(number) else { return };
                // The command may have exited.
                let _ = rustix::process::kill_process_group(self.foreground(), signal);
            }
            Control::ReportInput => self.stdin.count(),
            Control::Detach { timeout_ms } => {
                if self.io.detach() {
                    self.deadline = deadline(self.started, timeout_ms);
                }
            }
        }
    }

    /// The process group that receives signals: the terminal's foreground group, otherwise the command's own.
    fn foreground(&self) -> Pid {
        let terminal = self.outputs[0].fd.as_ref().filter(|_| self.is_terminal);
        terminal.and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok()).unwrap_or(self.child.pid)
    }

    /// Bytes of output that may be forwarded now.
    fn room(&self, channel: Channel) -> usize {
        if self.unheard { DATA_PAYLOAD } else { self.io.room(channel) }
    }

    fn until_deadline(&self) -> Option<Timespec> {
        let deadline = self.deadline.filter(|_| !self.timed_out && !self.cancelled)?;
        let left = deadline.saturating_duration_since(Instant::now());
        // One extra millisecond, so that rounding does not turn the last wait into a busy loop.
        Timespec::try_from(left + Duration::from_millis(1)).ok()
    }

    /// Forwards one chunk of output, at most `limit` bytes. With `at_last` it may be sent with the exit status.
    fn pump(&mut self, index: usize, limit: usize, at_last: bool) -> Pumped {
        let output = &mut self.outputs[index];
        let Some(fd) = &output.fd else { return Pumped::Ended };
        let frame = &mut self.scratch.data;
        frame.clear();
        let space = frame.space();
        let limit = limit.min(space.len());
        let count = match rustix::io::read(fd, &mut space[..limit]) {
            Ok(count) if count > 0 => count,
            Err(Errno::AGAIN | Errno::INTR) => return Pumped::NothingNow,
            // Reading a terminal that no process has open fails with EIO.
            _ => {
                output.fd = None;
                return Pumped::Ended;
            }
        };
        if !self.unheard {
            frame.advance(count);
            self.unheard = self.io.take_output(output.channel, self.scratch, at_last).is_err();
        }
        Pumped::Some(count)
    }

    /// Forwards what is in the pipes now. A background process of the command may keep them open and write more, but
    /// that no longer counts as the command's output.
    fn drain(&mut self) {
        for index in 0..self.outputs.len() {
            let Some(fd) = &self.outputs[index].fd else { continue };
            let mut left = if self.is_terminal {
                TERMINAL_BUFFER
            } else {
                rustix::io::ioctl_fionread(fd).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(0))
            };
            let at_last = !self.is_terminal && left <= SMALL;
            while left > 0 && self.wait_for_room(index) {
                let limit = left.min(self.room(self.outputs[index].channel));
                match self.pump(index, limit, at_last) {
                    Pumped::Some(count) => left -= count.min(left),
                    Pumped::NothingNow | Pumped::Ended => break,
                }
            }
        }
    }

    /// Waits until the host accepts more output. Returns false if it disconnected or cancelled.
    fn wait_for_room(&mut self, index: usize) -> bool {
        loop {
            if self.room(self.outputs[index].channel) > 0 {
                return true;
            }
            let signals = self.io.signals();
            if signals.ended || signals.cancelled {
                return false;
            }
            let mut fds = [PollFd::new(self.bell, PollFlags::IN)];
            if let Err(errno) = poll(&mut fds, None)
                && errno != Errno::INTR
            {
                return false;
            }
            self.bell.silence();
        }
    }
}

/// When a command with this timeout must end.
pub(crate) fn deadline(started: Instant, timeout_ms: Option<u64>) -> Option<Instant> {
    timeout_ms.and_then(|limit| started.checked_add(Duration::from_millis(limit)))
}

/// Waits for the command's process.
pub(crate) fn wait(pid: Pid) -> Outcome<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: rusage is valid when zeroed.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = pid.as_raw_nonzero().get();
    // SAFETY: both pointers are to live locals.
    while unsafe { libc::wait4(pid, &mut status, libc::__WALL, &mut usage) } == -1 {
        match last_errno() {
            Errno::INTR => {}
            errno => return Err(refused("waiting for the command", errno)),
        }
    }
    let status = if libc::WIFSIGNALED(status) {
        ExitStatus::Signal(libc::WTERMSIG(status))
    } else {
        ExitStatus::Code(libc::WEXITSTATUS(status))
    };
    let micros = |time: libc::timeval| time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_usec.cast_unsigned();
    let usage = Usage {
        wall_us: 0,
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        max_rss_kib: usage.ru_maxrss.cast_unsigned(),
    };
    Ok((status, usage))
}
