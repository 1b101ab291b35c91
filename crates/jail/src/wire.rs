//! Messages between a caller and the init of its sandbox.
//!
//! Both run the same program at the same time, so the format has no version. A frame is a length of four bytes and a
//! postcard value. Descriptors travel with the first byte of a frame.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::enforcement::{Enforced, Enforcement};
use crate::running::{End, Usage};
use crate::spec::{Spec, path};

/// The largest frame: arguments and environment of a program are at most 6 MiB.
const MAX_FRAME: usize = 16 << 20;
/// The most descriptors in a frame.
const MAX_DESCRIPTORS: usize = 5;

/// How far a sandbox is separated from its host.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Mode {
    /// All namespaces.
    Namespaces,
    /// All namespaces but that of users: for root where user namespaces are disabled.
    NoUserNamespace,
    /// A process with limits, a filter and Landlock.
    Plain,
}

/// The first message. Descriptors: the standard streams if there is a command; the network namespace and its user namespace
/// if they are given.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Start {
    pub spec: Spec,
    pub mode: Mode,
    /// Why a mode with more separation was not possible.
    pub refused: Option<String>,
    /// The command, if the sandbox is for one.
    pub command: Option<Command>,
    pub has_network: bool,
    pub has_network_user: bool,
    /// Limits that a cgroup enforces, which the caller has made.
    pub grouped: Grouped,
    /// Files of the cgroups to join.
    #[serde(with = "path::list")]
    pub join: Vec<PathBuf>,
}

/// Which limits a cgroup enforces.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Grouped {
    pub memory: bool,
    pub processes: bool,
    pub cpu: bool,
}

/// From a caller to the init of a session. Descriptors: the channel of the command and its standard streams.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Exec {
    pub command: Command,
}

/// From a caller, on the channel of a command.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Control {
    Signal(i32),
    Kill { grace: Duration },
}

/// To a caller, on the channel of a sandbox or of a command.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Report {
    /// The sandbox's init exists.
    Cloned { pid: i32 },
    /// The sandbox is set up.
    Ready(Enforcement),
    /// The renames of a command are supervised. Descriptors: the filter's listener and the sandbox's root directory.
    Supervised,
    /// They cannot be supervised.
    NotSupervised { error: i32 },
    /// The program of a command was executed.
    Started,
    /// The command has ended, and everything it left behind.
    Ended { end: End, timed_out: bool, killed: bool, usage: Usage },
    /// The sandbox or the command did not start.
    Failed(Failure),
}

/// Why a sandbox or a command did not start.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Failure {
    /// The kernel does not allow this mode.
    ModeRefused {
        step: String,
        error: i32,
    },
    SetUp {
        step: String,
        error: i32,
    },
    Unavailable(Enforced),
    Invalid(String),
    WorkingDirectory {
        error: i32,
    },
    Program {
        error: i32,
    },
}

/// Writes one frame.
pub(crate) fn send<T: Serialize>(to: impl AsFd, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    if body.len() > MAX_FRAME {
        return Err(Errno::TOOBIG.into());
    }
    let length = u32::try_from(body.len()).map_err(io::Error::other)?.to_le_bytes();
    let mut frame = Vec::with_capacity(length.len() + body.len());
    frame.extend(length);
    frame.extend(body);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL.into());
    }
    let mut rest = frame.as_slice();
    while !rest.is_empty() {
        match sendmsg(&to, &[IoSlice::new(rest)], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                rest = &rest[sent..];
                ancillary.clear();
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads one frame; `None` if the other end was closed before one began.
pub(crate) fn receive<T: DeserializeOwned>(from: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut fds = Vec::new();
    let mut length = [0; 4];
    if !read_exactly(from.as_fd(), &mut length, &mut fds)? {
        return Ok(None);
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(Errno::MSGSIZE.into());
    }
    let mut body = vec![0; length];
    if !read_exactly(from.as_fd(), &mut body, &mut fds)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let message = postcard::from_bytes(&body).map_err(io::Error::other)?;
    Ok(Some((message, fds)))
}

/// Fills `buffer`; false if the stream ends before its first byte.
fn read_exactly(from: BorrowedFd<'_>, buffer: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut buffer[filled..])];
        match recvmsg(from, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => {
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(received) = message {
                        fds.extend(received);
                    }
                }
                match received.bytes {
                    0 if filled == 0 => return Ok(false),
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    bytes => filled += bytes,
                }
            }
            Err(Errno::INTR) => {}
            // The other end was closed with unread data in it.
            Err(Errno::CONNRESET) if filled == 0 => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_frame_arrives_with_its_descriptors() {
        let (ours, theirs) = pair();
        let file = tempfile::tempfile().unwrap();
        let command = Command::new(["a", "b"]).cwd("/x");
        send(&ours, &Exec { command: command.clone() }, &[file.as_fd(), ours.as_fd()]).unwrap();
        send(&ours, &Control::Signal(15), &[]).unwrap();
        let (exec, fds) = receive::<Exec>(&theirs).unwrap().unwrap();
        assert_eq!((exec.command, fds.len()), (command, 2));
        let (control, fds) = receive::<Control>(&theirs).unwrap().unwrap();
        assert_eq!((control, fds.len()), (Control::Signal(15), 0));
        drop((ours, fds));
    }

    #[test]
    fn the_end_of_the_stream_is_told_from_a_broken_frame() {
        let (ours, theirs) = pair();
        drop(ours);
        assert!(receive::<Control>(&theirs).unwrap().is_none());
        for broken in [&[5, 0, 0, 0, 1][..], &[0xff, 0xff, 0xff, 0xff][..], &[1, 0][..], &[1, 0, 0, 0, 9][..]]
        {
            let (ours, theirs) = pair();
            rustix::io::write(&ours, broken).unwrap();
            drop(ours);
            assert!(receive::<Control>(&theirs).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn a_large_command_is_sent_whole_and_a_huge_one_is_refused() {
        let (ours, theirs) = pair();
        let large = Command::new(["x".repeat(3 << 20)]);
        let sent = large.clone();
        let sender = std::thread::spawn(move || send(&ours, &Exec { command: sent }, &[]).map(|()| ours));
        let (received, _) = receive::<Exec>(&theirs).unwrap().unwrap();
        let ours = sender.join().unwrap().unwrap();
        assert_eq!(received.command, large);
        let huge = Command::new(["x".repeat(MAX_FRAME)]);
        assert_eq!(send(&ours, &Exec { command: huge }, &[]).unwrap_err().raw_os_error(), Some(libc::E2BIG));
    }
}
