//! A command's standard input.
//!
//! The host may want to know how much the command reads, to leave the rest where it came from. A pipe tells how much is
//! unread, but wakes nobody when that becomes less. So the first piece goes into a pipe of a single page: such a pipe can
//! be written to again exactly when all that was in it has been read.
//!
//! ```text
//!  not counted ── count() ──► empty ── first piece ──► offered ── all of it read ──► read: reported; the pipe grows
//!                                                         └── exit: the last report says how much of it was read
//! ```

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::{
    event::PollFlags,
    fs::{Mode, OFlags},
    io::Errno,
    pipe::fcntl_setpipe_size,
};

use crate::command_io::{CommandIo, Input};

/// What a terminal takes as the end of its input: twice, since the first only ends a line that was begun.
const TERMINAL_END: &[u8] = &[4, 4];
/// A pipe of this size has room for one piece.
const ONE_PIECE: usize = 4096;
/// What a pipe usually holds.
const USUAL: usize = 64 * 1024;

pub(crate) struct Stdin {
    fd: Option<OwnedFd>,
    held: Vec<u8>,
    written: usize,
    is_terminal: bool,
    /// The terminal was told that its input is over.
    said_over: bool,
    meter: Option<Meter>,
}

/// How much of the input the command has read.
struct Meter {
    /// Bytes that went into the pipe.
    fed: u64,
    stage: Stage,
    /// The pipe's other end, once ours is closed: it says what is still unread.
    gauge: Option<OwnedFd>,
    /// What was still unread when the command closed its end.
    refused: u64,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Stage {
    /// The first reading cannot be seen: writing counts as reading, until the end.
    Blind,
    Empty,
    Offered,
    Read,
}

impl Stdin {
    pub(crate) fn new(fd: Option<OwnedFd>, is_terminal: bool) -> Self {
        Self { fd, held: Vec::new(), written: 0, is_terminal, said_over: false, meter: None }
    }

    /// Counts from now on what the command reads.
    pub(crate) fn count(&mut self) {
        if self.is_terminal || self.meter.is_some() {
            return;
        }
        let Some(fd) = &self.fd else { return };
        let stage = if fcntl_setpipe_size(fd, ONE_PIECE).is_ok() { Stage::Empty } else { Stage::Blind };
        self.meter = Some(Meter { fed: 0, stage, gauge: None, refused: 0 });
    }

    /// What has to become writable before there is anything to do.
    pub(crate) fn awaited(&self) -> Option<&OwnedFd> {
        self.fd.as_ref().filter(|_| self.written < self.held.len() || self.is_offered())
    }

    /// The awaited end became writable, or nobody reads any more.
    pub(crate) fn happened(&mut self, events: PollFlags, command_io: &dyn CommandIo) {
        if !self.is_offered() || events.is_empty() {
            return;
        }
        if events.contains(PollFlags::ERR) {
            self.refuse(command_io);
        } else if let Some((meter, fd)) = self.meter.as_mut().zip(self.fd.as_ref()) {
            meter.stage = Stage::Read;
            // A pipe that stays small is only slow.
            let _ = fcntl_setpipe_size(fd, USUAL);
            command_io.input_read(meter.fed);
        }
    }

    /// Says how much was read, if that is counted.
    pub(crate) fn report(&self, command_io: &dyn CommandIo) {
        let Some(meter) = &self.meter else { return };
        let unread = match self.fd.as_ref().or(meter.gauge.as_ref()) {
            Some(fd) => unread(fd),
            None => meter.refused,
        };
        command_io.input_read(meter.fed.saturating_sub(unread));
    }

    /// Writes what the command takes without waiting. What nobody reads any more is discarded.
    pub(crate) fn feed(&mut self, command_io: &dyn CommandIo) {
        while !self.is_offered() {
            if let Some(fd) = self.fd.as_ref().filter(|_| self.written < self.held.len()) {
                match rustix::io::write(fd, &self.held[self.written..]) {
                    Ok(count) => self.wrote(count, command_io),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return,
                    Err(_) => self.refuse(command_io),
                }
                continue;
            }
            self.written = 0;
            self.held = match command_io.try_receive() {
                Input::Data(data) => data,
                Input::Pending => Vec::new(),
                // A terminal's input cannot be closed, only said to be over.
                Input::Eof if self.is_terminal && self.fd.is_some() && !self.said_over => {
                    self.said_over = true;
                    TERMINAL_END.to_vec()
                }
                Input::Eof => {
                    self.close();
                    Vec::new()
                }
            };
            if self.held.is_empty() {
                return;
            }
            if self.fd.is_none() {
                self.held.clear();
            }
        }
    }

    fn is_offered(&self) -> bool {
        self.fd.is_some() && self.meter.as_ref().is_some_and(|meter| meter.stage == Stage::Offered)
    }

    fn wrote(&mut self, count: usize, command_io: &dyn CommandIo) {
        self.written += count;
        let Some(meter) = &mut self.meter else { return };
        meter.fed += count as u64;
        match meter.stage {
            Stage::Empty => meter.stage = Stage::Offered,
            Stage::Blind => {
                meter.stage = Stage::Read;
                // The host must not wait for what cannot be seen.
                command_io.input_read(meter.fed);
            }
            Stage::Offered | Stage::Read => {}
        }
    }

    /// Ends the input: the command reads what is in the pipe, and then its end.
    fn close(&mut self) {
        if let Some((meter, fd)) = self.meter.as_mut().zip(self.fd.as_ref()) {
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            // Without it, all that was sent counts as read.
            meter.gauge = rustix::fs::open(path, flags, Mode::empty()).ok();
        }
        self.fd = None;
    }

    fn refuse(&mut self, command_io: &dyn CommandIo) {
        if let Some((meter, fd)) = self.meter.as_mut().zip(self.fd.as_ref()) {
            meter.refused = unread(fd);
        }
        self.fd = None;
        command_io.input_refused();
    }
}

/// How many bytes of a pipe were not read.
fn unread(fd: impl AsFd) -> u64 {
    rustix::io::ioctl_fionread(fd).unwrap_or(0)
}
