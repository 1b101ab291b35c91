//! Creates the pipes or the terminal between the agent and a command.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{Gid, Mode, OFlags, Uid},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    pty::OpenptFlags,
    termios::Winsize,
};

use crate::{
    error::{During, Outcome},
    identity::Identity,
};

/// The conventional group id of `tty`.
const TTY_GROUP: u32 = 5;

/// The agent's ends.
pub(crate) struct Ours {
    /// Write end of the command's input.
    pub(crate) stdin: Option<OwnedFd>,
    /// Read end of the command's output. With a terminal, of all its output.
    pub(crate) stdout: OwnedFd,
    /// Read end of the command's standard error.
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) is_terminal: bool,
}

/// The command's ends.
pub(crate) struct Theirs {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Theirs {
    /// Standard input, output and error.
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 3] {
        [self.stdin.as_fd(), self.stdout.as_fd(), self.stderr.as_fd()]
    }
}

/// Creates pipes. Without `input`, the command's input is empty.
pub(crate) fn pipes(input: bool, owner: Option<&Identity>) -> Outcome<(Ours, Theirs)> {
    let (stdin, their_stdin) = if input {
        let (theirs, ours) = pipe(owner)?;
        (Some(without_waiting(ours)?), theirs)
    } else {
        let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        (None, null.during(|| "opening /dev/null")?)
    };
    let (stdout, their_stdout) = pipe(owner)?;
    let (stderr, their_stderr) = pipe(owner)?;
    let ours = Ours {
        stdin,
        stdout: without_waiting(stdout)?,
        stderr: Some(without_waiting(stderr)?),
        is_terminal: false,
    };
    Ok((ours, Theirs { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr }))
}

/// Creates a pseudo-terminal of this size.
pub(crate) fn terminal((columns, rows): (u16, u16), owner: Option<&Identity>) -> Outcome<(Ours, Theirs)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let main = rustix::pty::openpt(flags).during(|| "opening a terminal")?;
    rustix::pty::unlockpt(&main).during(|| "unlocking the terminal")?;
    let theirs =
        rustix::pty::ioctl_tiocgptpeer(&main, flags).during(|| "opening the terminal's other side")?;
    rustix::termios::tcsetwinsize(&main, size(columns, rows)).during(|| "sizing the terminal")?;
    if let Some(owner) = owner {
        own(&theirs, owner.uid, TTY_GROUP).during(|| "changing the owner of the terminal")?;
    }
    let input = rustix::io::fcntl_dupfd_cloexec(&main, 3).during(|| "duplicating the terminal")?;
    let duplicate = || rustix::io::fcntl_dupfd_cloexec(&theirs, 3).during(|| "duplicating the terminal");
    let (stdin, stdout) = (duplicate()?, duplicate()?);
    let ours = Ours { stdin: Some(input), stdout: without_waiting(main)?, stderr: None, is_terminal: true };
    Ok((ours, Theirs { stdin, stdout, stderr: theirs }))
}

pub(crate) fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Creates a pipe, read end first. It belongs to the user, who could not open `/dev/stdout` otherwise.
fn pipe(owner: Option<&Identity>) -> Outcome<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).during(|| "creating a pipe")?;
    if let Some(owner) = owner {
        own(&read, owner.uid, owner.gid).during(|| "changing the owner of a pipe")?;
    }
    Ok((read, write))
}

fn own(fd: &OwnedFd, uid: u32, gid: u32) -> rustix::io::Result<()> {
    match rustix::fs::fchown(fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))) {
        // Only happens if the agent is not root; starting the command as another user will fail anyway.
        Err(Errno::PERM) => Ok(()),
        result => result,
    }
}

fn without_waiting(fd: OwnedFd) -> Outcome<OwnedFd> {
    let set = || rustix::fs::fcntl_setfl(&fd, rustix::fs::fcntl_getfl(&fd)? | OFlags::NONBLOCK);
    set().during(|| "making a pipe non-blocking")?;
    Ok(fd)
}
