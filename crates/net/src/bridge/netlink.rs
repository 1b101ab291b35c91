//! Netlink messages, as few as are needed: written by hand, because they are fewer than a library's types for them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

pub(super) const REQUEST: u16 = 1;
pub(super) const ACK: u16 = 4;
pub(super) const CREATE: u16 = 0x400;
pub(super) const REPLACE: u16 = 0x100;
pub(super) const EXCLUSIVE: u16 = 0x200;
pub(super) const DUMP: u16 = 0x300;

const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// A nested attribute.
const NESTED: u16 = 0x8000;
const BUFFER: usize = 64 << 10;

/// Which part of the kernel is spoken to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Family {
    Route,
    Netfilter,
}

/// A message that is being written.
pub(super) struct Message(Vec<u8>);

impl Message {
    /// A message of a kind with its fixed part.
    pub(super) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Self(bytes)
    }

    /// Adds an attribute.
    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.add(kind, value);
        self
    }

    /// Adds an attribute that holds attributes.
    pub(super) fn with_nested(mut self, kind: u16, write: impl FnOnce(Self) -> Self) -> Self {
        let inner = write(Self(Vec::new())).0;
        self.add(kind | NESTED, &inner);
        self
    }

    fn add(&mut self, kind: u16, value: &[u8]) {
        let length = (4 + value.len()) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[0..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// A text as an attribute: it ends with a zero.
pub(super) fn text(value: &str) -> Vec<u8> {
    [value.as_bytes(), &[0]].concat()
}

/// A connection to the kernel, for the namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens a connection that also receives the messages of these groups.
    pub(super) fn open(family: Family, groups: u32) -> io::Result<Self> {
        let protocol = match family {
            Family::Route => None,
            Family::Netfilter => Some(netlink::NETFILTER),
        };
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a message and waits until it was carried out.
    pub(super) fn request(&mut self, message: Message) -> io::Result<()> {
        self.exchange(message, ACK, |_, _| {})
    }

    /// Sends a message and passes every answer to a function.
    pub(super) fn exchange(
        &mut self,
        message: Message,
        flags: u16,
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.sequence += 1;
        let mut bytes = message.finish(self.sequence);
        let asked = u16::from_ne_bytes([bytes[6], bytes[7]]) | flags;
        bytes[6..8].copy_from_slice(&asked.to_ne_bytes());
        send(&self.socket, &bytes, SendFlags::empty())?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            for (kind, sequence, body) in Messages(&buffer[..length]) {
                if sequence != self.sequence {
                    continue;
                }
                match kind {
                    ERROR => return outcome(body),
                    DONE => return Ok(()),
                    _ => each(kind, body),
                }
            }
        }
    }

    /// Waits for the next messages that were not asked for. Messages may have been lost before it (`ENOBUFS`).
    pub(super) fn receive(&self, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
        Messages(&buffer[..length]).for_each(|(kind, _, body)| each(kind, body));
        Ok(())
    }
}

impl Netlink {
    /// Makes `receive` return at once if there is nothing.
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, true)?)
    }
}

impl AsRawFd for Netlink {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn outcome(body: &[u8]) -> io::Result<()> {
    match body.get(..4).and_then(|code| code.try_into().ok()).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The messages of one datagram: kind, sequence number and body.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (u16, u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = u32::from_ne_bytes(self.0.get(..4)?.try_into().ok()?) as usize;
        let message = self.0.get(..length).filter(|message| message.len() >= HEADER)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        let sequence = u32::from_ne_bytes([message[8], message[9], message[10], message[11]]);
        Some((kind, sequence, &message[HEADER..]))
    }
}

/// The attributes of a message: kind and value.
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(self.0.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(self.0.get(2..4)?.try_into().ok()?);
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & 0x3fff, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_aligned_and_read_back() {
        let message = Message::new(7, 0, &[1, 2, 3, 4])
            .with(3, &text("abc"))
            .with(9, &[5])
            .with_nested(18, |inner| inner.with(1, b"xy"));
        let bytes = message.finish(42);
        let (kind, sequence, body) = Messages(&bytes).next().unwrap();
        assert_eq!((kind, sequence), (7, 42));
        let found: Vec<_> = Attributes(&body[4..]).collect();
        assert_eq!(found[0], (3, &b"abc\0"[..]));
        assert_eq!(found[1], (9, &[5][..]));
        assert_eq!(found[2].0, 18);
        assert_eq!(Attributes(found[2].1).collect::<Vec<_>>(), [(1, &b"xy"[..])]);
    }

    #[test]
    fn a_damaged_message_ends_the_list() {
        assert_eq!(Messages(&[255, 0, 0, 0, 1]).count(), 0);
        assert_eq!(Messages(&[4, 0, 0, 0]).count(), 0);
        assert_eq!(Attributes(&[200, 0, 1, 0]).count(), 0);
        assert_eq!(Attributes(&[0, 0, 1, 0]).count(), 0, "an attribute shorter than its header");
    }

    #[test]
    fn the_kernel_names_the_loopback_link() {
        let mut netlink = Netlink::open(Family::Route, 0).unwrap();
        let mut found = 0;
        netlink.exchange(Message::new(18, DUMP, &[0; 16]), 0, |_, _| found += 1).unwrap();
        assert!(found > 0);
        let missing = Message::new(18, 0, &[0; 16]).with(3, &text("nosuchlink"));
        assert_eq!(netlink.request(missing).unwrap_err().raw_os_error(), Some(19));
    }
}
