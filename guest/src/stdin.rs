//! A command's standard input.
//!
//! The host may want to know how much of the input the command has read, to leave the rest at its source. A pipe
//! reports how much is unread, but wakes nobody when that decreases. So the first chunk goes into a pipe of a single
//! page, which becomes writable again exactly when all of it has been read.
//!
//! ```text
//!  not counted ── count() ──► empty ── first chunk ──► offered ── all of it read ──► read: reported; the pipe grows
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

/// Ctrl-D, twice: the first only flushes a line that was begun.
const TERMINAL_END: &[u8] = &[4, 4];
/// A pipe of this size holds one chunk.
const ONE_PIECE: usize = 4096;
/// The default pipe capacity.
const USUAL: usize = 64 * 1024;

pub(crate) struct Stdin {
    fd: Option<OwnedFd>,
    held: Vec<u8>,
    written: usize,
    is_terminal: bool,
    /// Ctrl-D was sent to the terminal.
    said_over: bool,
    meter: Option<Meter>,
}

/// Measures how much of the input the command has read.
struct Meter {
    /// Bytes written to the pipe.
    fed: u64,
    stage: Stage,
    /// A read end of the pipe, opened when the write end is closed: it reports how much is unread.
    gauge: Option<OwnedFd>,
    /// Bytes that were unread when the command closed its end.
    refused: u64,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Stage {
    /// The first read cannot be observed, so written bytes count as read until the command exits.
    Blind,
    Empty,
    Offered,
    Read,
}

impl Stdin {
    pub(crate) fn new(fd: Option<OwnedFd>, is_terminal: bool) -> Self {
        Self { fd, held: Vec::new(), written: 0, is_terminal, said_over: false, meter: None }
    }

    /// Starts counting what the command reads.
    pub(crate) fn count(&mut self) {
        if self.is_terminal || self.meter.is_some() {
            return;
        }
        let Some(fd) = &self.fd else { return };
        let stage = if fcntl_setpipe_size(fd, ONE_PIECE).is_ok() { Stage::Empty } else { Stage::Blind };
        self.meter = Some(Meter { fed: 0, stage, gauge: None, refused: 0 });
    }

    /// The descriptor to wait for until it is writable.
    pub(crate) fn awaited(&self) -> Option<&OwnedFd> {
        self.fd.as_ref().filter(|_| self.written < self.held.len() || self.is_offered())
    }

    /// Handles the descriptor becoming writable, or the command closing its end.
    pub(crate) fn happened(&mut self, events: PollFlags, io: &dyn CommandIo) {
        if !self.is_offered() || events.is_empty() {
            return;
        }
        if events.contains(PollFlags::ERR) {
            self.refuse(io);
        } else if let Some((meter, fd)) = self.meter.as_mut().zip(self.fd.as_ref()) {
            meter.stage = Stage::Read;
            // On failure the pipe stays small, which is only slower.
            let _ = fcntl_setpipe_size(fd, USUAL);
            io.input_read(meter.fed);
        }
    }

    /// Reports how much was read, if it is being counted.
    pub(crate) fn report(&self, io: &dyn CommandIo) {
        let Some(meter) = &self.meter else { return };
        let unread = match self.fd.as_ref().or(meter.gauge.as_ref()) {
            Some(fd) => unread(fd),
            None => meter.refused,
        };
        io.input_read(meter.fed.saturating_sub(unread));
    }

    /// Writes as much as the command accepts without blocking. Discards input that nobody reads any more.
    pub(crate) fn feed(&mut self, io: &dyn CommandIo) {
        while !self.is_offered() {
            if let Some(fd) = self.fd.as_ref().filter(|_| self.written < self.held.len()) {
                match rustix::io::write(fd, &self.held[self.written..]) {
                    Ok(count) => self.wrote(count, io),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return,
                    Err(_) => self.refuse(io),
                }
                continue;
            }
            self.written = 0;
            self.held = match io.try_receive() {
                Input::Data(data) => data,
                Input::Pending => Vec::new(),
                // A terminal's input cannot be closed, so send Ctrl-D.
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

    fn wrote(&mut self, count: usize, io: &dyn CommandIo) {
        self.written += count;
        let Some(meter) = &mut self.meter else { return };
        meter.fed += count as u64;
        match meter.stage {
            Stage::Empty => meter.stage = Stage::Offered,
            Stage::Blind => {
                meter.stage = Stage::Read;
                // Report it as read: the host must not wait for something that cannot be observed.
                io.input_read(meter.fed);
            }
            Stage::Offered | Stage::Read => {}
        }
    }

    /// Closes the input: the command reads what is in the pipe, then end of file.
    fn close(&mut self) {
        if let Some((meter, fd)) = self.meter.as_mut().zip(self.fd.as_ref()) {
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            // Without it, everything sent counts as read.
            meter.gauge = rustix::fs::open(path, flags, Mode::empty()).ok();
        }
        self.fd = None;
    }

    fn refuse(&mut self, io: &dyn CommandIo) {
        if let Some((meter, fd)) = self.meter.as_mut().zip(self.fd.as_ref()) {
            meter.refused = unread(fd);
        }
        self.fd = None;
        io.input_refused();
    }
}

/// Number of unread bytes in a pipe.
fn unread(fd: impl AsFd) -> u64 {
    rustix::io::ioctl_fionread(fd).unwrap_or(0)
}
